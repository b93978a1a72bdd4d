// Elements, made and replaced.

/** An element with attributes, and what is in it. */
export function made(kind, attributes = {}, ...content) {
  const element = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...content);
  return element;
}

/** A button, and what it does. */
export function pressable(content, pressed, attributes = {}) {
  const button = made("button", { type: "button", ...attributes }, content);
  button.addEventListener("click", pressed);
  return button;
}

/** A table in a box that scrolls. rows: [name, cell, …], each cell made by `cell` */
export function tableOf(caption, names, rows) {
  const head = made("tr", {}, ...names.map((name) => made("th", { scope: "col" }, name)));
  const lines = rows.map(([name, ...cells]) => made("tr", {}, made("th", { scope: "row" }, name), ...cells));
  const parts = [made("caption", {}, caption), made("thead", {}, head), made("tbody", {}, ...lines)];
  const table = made("table", {}, ...parts);
  return made("div", { class: "live-box", tabindex: 0, role: "region", "aria-label": caption }, table);
}

export const cell = (content, attributes) => made("td", attributes, content);

/** A number with two decimals, as in the lessons; one that rounds to 0 has no sign. */
export function short(number) {
  if (!Number.isFinite(number)) return "−∞";
  return number.toFixed(2).replace("-0.00", "0.00").replace("-", "−");
}

/** Put new elements into a box; where a button of it had the focus, the one in its place has it then. */
export function keepingFocus(box, elements) {
  const place = [...box.querySelectorAll("button")].indexOf(document.activeElement);
  box.replaceChildren(...elements);
  box.querySelectorAll("button")[place]?.focus({ preventScroll: true });
}
