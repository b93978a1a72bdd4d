// The walk, drawn: one step at a time, every number a button that says where it comes from.

import { answer } from "./chain.js";
import { cell, keepingFocus, made, pressable, short, tableOf } from "./dom.js";
import { ofSigned, paint, style } from "./heatmap.js";
import { View, sum } from "./run.js";
import { STEPS } from "./steps.js";

const ROW = 20; // pixels, of a line of bars: a weight of 1 is as wide

export class Walk {
  /** box: where it is drawn; changed(wanted): another step or key is picked; links: exercise → address */
  constructor(box, { changed, links }) {
    Object.assign(this, { box, changed, links, asked: [] });
    this.part = (name) => box.querySelector(name);
    const steps = STEPS.map(({ name }, step) => pressable(name, () => changed({ step })));
    this.part(".walk-steps").append(...steps.map((button) => made("li", {}, button)));
    box.addEventListener("keydown", ({ key }) => key === "Escape" && this.asked.length && this.close());
    this.part(".walk-back").addEventListener("click", () => changed({ step: this.view.step - 1 }));
    this.part(".walk-on").addEventListener("click", () => changed({ step: this.view.step + 1 }));
    this.part(".walk-arrives input").addEventListener("change", () => this.draw(this.view));
  }

  /** wanted: {run, text, token, layer, head, key, step} */
  draw(wanted) {
    const isNew = (each) => this.view?.[each] !== wanted[each];
    if (["run", "step", "token", "layer", "head"].some(isNew)) this.asked = [];
    const view = (this.view = new View({ ...wanted, arrives: this.part(".walk-arrives input").checked }));
    const step = STEPS[view.step], next = STEPS[view.step + 1], link = this.part(".walk-exercise");
    this.box.querySelectorAll(".walk-steps button").forEach((button, place) => {
      button.setAttribute("aria-current", place === view.step && "step");
    });
    this.part(".walk-back").disabled = view.step === 0;
    this.part(".walk-on").disabled = !next;
    link.href = this.links[step.exercise];
    const words = {
      ".walk-on": next ? "Next →" : "The end", ".walk-name": `${view.step + 1}. ${step.name}`,
      ".walk-says": step.says(view), ".walk-shape": step.shape, ".walk-code": step.code,
      ".walk-exercise": `You’ll write this in exercise ${step.exercise}`,
    };
    Object.entries(words).forEach(([name, text]) => (this.part(name).textContent = text));
    this.part(".walk-arrives").hidden = !step.shares;
    const items = step.make(view);
    keepingFocus(this.part(".walk-items"), items.map((item) => this.item(item, items)));
    this.answer();
  }

  /** One line of a step: what is done, what it is, its numbers. */
  item(item, all) {
    const { form, label, values, op = "" } = item;
    const [least, most] = [Math.min(...values), Math.max(...values)].map(short);
    const ends = made("small", {}, form === "strip" ? ` ${values.length} features, from ${least} to ${most}` : "");
    const line = made("div", { class: "walk-item" }, made("span", { class: "walk-op" }, op));
    line.append(made("span", { class: "walk-label" }, label, ends), this[form](item, all));
    return line;
  }

  /** Hundreds of numbers as stripes; all strips of a step share one scale. */
  strip({ label, values, framed }, all) {
    const most = largestOf(all.filter(({ form }) => form === "strip").map((each) => each.values));
    const canvas = stripes(values, most, `${label}: ${values.length} features`);
    const box = made("span", { class: "walk-numbers walk-canvas" }, canvas);
    if (framed) {
      const [from, to] = framed.map((place) => (100 * place) / values.length);
      box.append(made("span", { class: "walk-frame", style: `left:${from}%;width:${to - from}%` }));
    }
    return box;
  }

  /** A few dozen numbers; of those that can be asked, the large ones are lit. */
  cells({ values, ask }) {
    const most = largestOf([values]);
    const cells = Array.from(values, (value, place) => {
      const kind = ask && Math.abs(value) > most / 3 ? "walk-cell walk-lit" : "walk-cell";
      return this.number(value, ask?.(place), { style: style(ofSigned(value, most)), class: kind });
    });
    return made("span", { class: "walk-numbers walk-grid" }, ...cells);
  }

  /**
   * A line for each token or neuron: a bar, or stripes if there are some; a token's name picks it as the key
   * that is compared. flow: lines lead to it from the chosen token.
   */
  bars({ names, values, ask, flow, stripes: parts }) {
    const finite = Array.from(values, (each) => (Number.isFinite(each) ? each : 0));
    const least = Math.min(0, ...finite), scale = 100 / (Math.max(0, ...finite) - least || 1);
    const most = parts && largestOf(parts), { token, key } = this.view;
    const lines = names.map((name, place) => {
      const value = finite[place], left = (Math.min(0, value) - least) * scale;
      const look = { class: value < 0 ? "walk-bar walk-negative" : "walk-bar" };
      const bar = made("span", { ...look, style: `left:${left}%;width:${Math.abs(value) * scale}%` });
      const pick = () => this.changed({ key: place });
      const label = ask || flow ? pressable(name, pick, { "aria-pressed": place === key }) : name;
      const track = made("span", { class: "walk-track" }, parts ? stripes(parts[place], most) : bar);
      const isChosen = place === token ? "walk-from walk-chosen" : "walk-from";
      const from = flow ? [made("span", { class: isChosen, "aria-hidden": true }, name)] : [];
      const to = made("span", { class: "walk-token" }, label);
      return made("li", {}, ...from, to, track, this.number(values[place], ask?.(place)));
    });
    if (flow) lines[0].prepend(flowOf(token, values));
    return made("ul", { class: flow ? "walk-numbers walk-flowing" : "walk-numbers" }, ...lines);
  }

  /** A number; a button, if it can be asked where it comes from. */
  number(value, question, attributes = {}) {
    const all = { "data-value": value, title: `${value}`, ...attributes };
    const isNarrow = attributes.class && Math.abs(value) >= 1;
    const digits = isNarrow ? value.toFixed(1).replace("-", "−") : short(value);
    if (!question) return made("span", all, digits);
    const name = { "aria-label": `${digits}: where does it come from?` };
    return pressable(digits, () => this.ask(question), { ...all, ...name });
  }

  /** Ask where a number comes from; earlier questions are listed above, to go back to. */
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
    const rule = `= ${last.rule}`;
    const shown = last.cells ? [made("p", {}, rule), this.cells(last.cells)] : [this.rows(rule, last)];
    const heading = made("h3", {}, `${last.title}: ${short(last.result)}`);
    box.replaceChildren(made("ol", {}, ...way), close, heading, ...shown, last.end ?? "");
    box.dataset.result = last.result;
  }

  close() {
    this.asked = [];
    this.answer();
    this.part(".walk-on").focus();
  }

  rows(rule, { columns, rows, isFirstAsked }) {
    const cells = (numbers) => numbers.map((each) => cell(this.number(each.value ?? each, each.ask)));
    const box = tableOf(rule, columns, rows.map(([name, ...numbers]) => [name, ...cells(numbers)]));
    box.querySelector("tbody tr").setAttribute("aria-current", Boolean(isFirstAsked));
    return box;
  }
}

/** The largest number of some rows, without its sign. */
const largestOf = (rows) => Math.max(...rows.flatMap((values) => Array.from(values, Math.abs)));

/** A row of numbers as colours; a picture for readers only if it has a name. */
function stripes(values, most, name) {
  const attributes = name ? { role: "img", "aria-label": name, title: name } : { "aria-hidden": true };
  return paint(made("canvas", attributes), [values], (each) => ofSigned(each, most));
}

/** Lines from the chosen token to every key, each as wide as its share; the numbers say the same. */
function flowOf(token, values) {
  const all = sum(values), from = token + 0.5;
  const lines = Array.from(values, (value, key) => {
    const to = key + 0.5;
    return `<path d="M0 ${from}C.5 ${from} .5 ${to} 1 ${to}" stroke-width="${(ROW * value) / all}"/>`;
  });
  const box = made("span", { class: "walk-flow", "aria-hidden": true });
  box.innerHTML = `<svg viewBox="0 0 1 ${values.length}" preserveAspectRatio="none">${lines.join("")}</svg>`;
  return box;
}
