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
export function short(number, decimals = 2) {
  if (!Number.isFinite(number)) return "−∞";
  const digits = number.toFixed(decimals);
  return Number(digits) ? digits.replace("-", "−") : digits.replace("-", "");
}

/**
 * One tab stop for many elements of a box: the arrow keys, Home and End lead to another.
 * moved(place): it is reached; columns: of a grid, at whose ends the keys stop; a row goes around.
 */
export function arrows(box, selector, moved, columns = 0) {
  const all = () => [...box.querySelectorAll(selector)];
  box.addEventListener("keydown", (event) => {
    const now = all().indexOf(document.activeElement), last = all().length - 1, down = columns || 1;
    const by = { Home: -now, End: last - now, ArrowLeft: -1, ArrowRight: 1, ArrowUp: -down, ArrowDown: down };
    const next = columns ? now + by[event.key] : (now + by[event.key] + last + 1) % (last + 1);
    if (now < 0 || !all()[next]) return;
    event.preventDefault();
    moved(next);
    all()[next].focus();
  });
}

/** Put new elements into a box; where a button of it had the focus, the one in its place has it then. */
export function keepingFocus(box, elements) {
  const place = [...box.querySelectorAll("button")].indexOf(document.activeElement);
  box.replaceChildren(...elements);
  box.querySelectorAll("button")[place]?.focus({ preventScroll: true });
}
