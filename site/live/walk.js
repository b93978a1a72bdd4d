// The walk, drawn: one step at a time, every number a button that says where it comes from.

import { answer } from "./chain.js";
import { made, ofSigned, paint, pressable, short, style } from "./heatmap.js";
import { STEPS, keyOf, namesOf } from "./steps.js";

export class Walk {
  /** box: where it is drawn; changed(wanted): the reader picks another step or key; links: exercise → address */
  constructor(box, { changed, links }) {
    Object.assign(this, { box, changed, links, asked: [] });
    this.part = (name) => box.querySelector(name);
    const steps = STEPS.map(({ name }, step) => pressable(name, () => changed({ step })));
    this.part(".walk-steps").append(...steps.map((button) => made("li", {}, button)));
    box.addEventListener("keydown", ({ key }) => key === "Escape" && this.asked.length && this.close());
    this.part(".walk-back").addEventListener("click", () => changed({ step: Math.max(0, this.view.step - 1) }));
    this.part(".walk-on").addEventListener("click", () => changed({ step: Math.min(STEPS.length - 1, this.view.step + 1) }));
    this.part(".walk-arrives input").addEventListener("change", () => this.draw(this.view));
  }

  /** view: {run, text, token, layer, head, key, step} */
  draw(view) {
    if (["run", "step", "token", "layer", "head"].some((each) => this.view?.[each] !== view[each])) this.asked = [];
    this.view = view;
    const step = STEPS[view.step], names = namesOf(view.run, view.text);
    this.box.querySelectorAll(".walk-steps button").forEach((button, place) => {
      button.toggleAttribute("aria-current", place === view.step);
    });
    this.part(".walk-back").disabled = view.step === 0;
    const next = STEPS[view.step + 1];
    this.part(".walk-on").disabled = !next;
    this.part(".walk-on").textContent = next ? `Next: ${next.name} →` : "The end";
    this.part(".walk-name").textContent = `${view.step + 1}. ${step.name}`;
    const isAlone = (name) => names.indexOf(name) === names.lastIndexOf(name);
    const told = (place) => (isAlone(names[place]) ? names[place] : `${names[place]} (${place})`);
    const key = keyOf(view), weight = short(view.run.weights(view.text, view.token, view.layer, view.head)[key]);
    const id = view.run.cuts[view.text].ids[view.token] ?? 0;
    this.part(".walk-says").textContent = step.says({ ...view, name: told(view.token), keyName: told(key), id, weight });
    this.part(".walk-shape").textContent = step.shape;
    this.part(".walk-code").textContent = step.code;
    const link = this.part(".walk-exercise");
    [link.href, link.textContent] = [this.links[step.exercise], `You write it in ${step.exercise}`];
    const items = step.make(view);
    this.part(".walk-arrives").hidden = !items.some(({ arrives }) => arrives);
    const drawn = items.map((item) => this.item(item, items));
    keepingFocus(this.part(".walk-items"), drawn);
    this.answer();
  }

  /** One line of a step: what is done, what it is, its numbers. */
  item(item, all) {
    const line = made("div", { class: "walk-item" }, made("span", { class: "walk-op" }, item.op ?? ""));
    const isArrival = item.arrives && this.part(".walk-arrives input").checked;
    const label = isArrival ? "weight × length of the value" : item.label;
    line.append(made("span", { class: "walk-label" }, label, this.ends(item)), this[item.form](item, all));
    return line;
  }

  /** Of a strip, whose numbers are not written, how many they are and between which. */
  ends({ form, values }) {
    const [least, most] = [Math.min(...values), Math.max(...values)].map(short);
    return made("small", {}, form === "strip" ? ` ${values.length} numbers, ${least} … ${most}` : "");
  }

  /** Hundreds of numbers as stripes; all strips of a step share one scale. */
  strip({ label, values, framed }, all) {
    const most = Math.max(...all.flatMap((each) => (each.form === "strip" ? Array.from(each.values, Math.abs) : [0])));
    const told = `${label}: ${values.length} numbers`;
    const canvas = paint(made("canvas", { role: "img", "aria-label": told, title: told }), [values], (each) => ofSigned(each, most));
    const box = made("span", { class: "walk-canvas" }, canvas);
    if (framed) {
      const [from, to] = framed.map((place) => (100 * place) / values.length);
      box.append(made("span", { class: "walk-frame", style: `left:${from}%;width:${to - from}%` }));
    }
    return made("span", { class: "walk-numbers" }, box);
  }

  /** A few dozen numbers; of those that can be asked, the large ones are lit. */
  cells({ values, ask }) {
    const most = Math.max(...Array.from(values, Math.abs));
    const cells = Array.from(values, (value, place) => {
      const lit = ask && Math.abs(value) > most / 3;
      const attributes = { style: style(ofSigned(value, most)), class: lit ? "walk-cell walk-lit" : "walk-cell" };
      return this.number(value, ask?.(place), attributes);
    });
    return made("span", { class: "walk-numbers walk-grid" }, ...cells);
  }

  /** A bar for each token or neuron; a token's name picks it as the key that is compared. */
  bars({ names, values, ask, arrives }) {
    const shown = arrives && this.part(".walk-arrives input").checked ? arrives : values;
    const finite = Array.from(shown, (each) => (Number.isFinite(each) ? each : 0));
    const least = Math.min(0, ...finite), per = 100 / (Math.max(0, ...finite) - least || 1);
    const lines = names.map((name, place) => {
      const ends = [Math.min(0, finite[place]), Math.max(0, finite[place])].map((end) => (end - least) * per);
      const look = `left:${ends[0]}%;width:${ends[1] - ends[0]}%`;
      const bar = made("span", { class: finite[place] < 0 ? "walk-bar walk-negative" : "walk-bar", style: look });
      const picked = ask && place === keyOf(this.view);
      const label = ask ? pressable(name, () => this.changed({ key: place }), { "aria-pressed": picked }) : name;
      const number = shown === values ? this.number(values[place], ask?.(place)) : short(shown[place]);
      return made("li", {}, made("span", { class: "walk-token" }, label), made("span", { class: "walk-track" }, bar), number);
    });
    return made("ul", { class: "walk-numbers" }, ...lines);
  }

  /** A number; a button, if it can be asked where it comes from. */
  number(value, question, attributes = {}) {
    const all = { "data-value": value, title: `${value}`, ...attributes };
    const digits = attributes.class && Math.abs(value) >= 1 ? value.toFixed(1).replace("-", "−") : short(value); // cells are narrow
    if (!question) return made("span", all, digits);
    return pressable(digits, () => this.ask(question), { ...all, "aria-label": `${digits}: where from?` });
  }

  /** Ask where a number comes from; what was asked before stands above, to go back to. */
  ask(question, depth = this.asked.length) {
    this.asked = [...this.asked.slice(0, depth), question];
    this.answer();
    this.part(".walk-answer").focus({ preventScroll: true });
  }

  answer() {
    const box = this.part(".walk-answer");
    box.hidden = !this.asked.length;
    this.part(".walk-step").hidden = !box.hidden; // in its place, so that nobody has to scroll
    if (box.hidden) return box.replaceChildren();
    const answers = this.asked.map((question) => answer(this.view, question)), last = answers.at(-1);
    const way = answers.slice(0, -1).map(({ title }, depth) =>
      made("li", {}, pressable(title, () => this.ask(this.asked[depth], depth))),
    );
    const close = pressable("Close", () => this.close(), { class: "walk-close" });
    box.replaceChildren(made("ol", {}, ...way), made("h3", {}, `${last.title}: ${short(last.result)}`), close);
    box.append(made("p", {}, `= ${last.rule}`), last.cells ? this.products(last.cells) : this.rows(last), last.end ?? "");
    box.dataset.result = last.result;
  }

  close() {
    this.asked = [];
    this.answer();
    this.part(".walk-on").focus();
  }

  products(cells) {
    return this.cells({ values: cells.map(({ value }) => value), ask: (place) => cells[place].ask });
  }

  rows({ columns, rows, lit }) {
    const head = made("tr", {}, ...columns.map((name) => made("th", { scope: "col" }, name)));
    const lines = rows.map(([name, ...numbers], place) => {
      const cells = numbers.map((each) => made("td", {}, this.number(each.value ?? each, each.ask)));
      return made("tr", place === lit ? { class: "walk-lit" } : {}, made("th", { scope: "row" }, name), ...cells);
    });
    return made("div", { class: "live-box", tabindex: 0 }, made("table", {}, made("thead", {}, head), made("tbody", {}, ...lines)));
  }
}

/** Put new elements into a box; where a button of it had the focus, the one in its place has it then. */
export function keepingFocus(box, elements) {
  const place = [...box.querySelectorAll("button")].indexOf(document.activeElement);
  box.replaceChildren(...elements);
  box.querySelectorAll("button")[place]?.focus({ preventScroll: true });
}
