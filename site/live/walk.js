// The walk, drawn: one step at a time, every number a button that says where it comes from.

import { answer } from "./chain.js";
import { cell, keepingFocus, made, pressable, short, tableOf } from "./dom.js";
import { ofSigned, paint, style } from "./heatmap.js";
import { Overview } from "./overview.js";
import { View, sum } from "./run.js";
import { STEPS } from "./steps.js";

const ROW = 20; // pixels, of a line of bars: a weight of 1 is as wide
const BEYOND = 5; // percent of the features of a step's strips: a few outliers don't set the scale
const LISTED = 3; // of the largest features of a strip

export class Walk {
  /** box: where it's drawn; changed(wanted): another step or key; flip(part): off or on; links: exercise → address */
  constructor(box, { changed, flip, links }) {
    Object.assign(this, { box, changed, flip, links, asked: [] });
    this.part = (name) => box.querySelector(name);
    const names = STEPS.slice(1).map(({ name }) => name);
    this.overview = new Overview(this.part(".walk-steps"), names, (step) => this.go(step));
    box.addEventListener("keydown", ({ key }) => key === "Escape" && this.asked.length && this.close());
    this.part(".walk-back").addEventListener("click", () => this.go(this.view.step - 1));
    this.part(".walk-on").addEventListener("click", () => this.go((this.view.step + 1) % STEPS.length));
    this.part(".walk-arrives input").addEventListener("change", () => this.draw(this.view, true));
    this.part(".walk-flip").addEventListener("click", () => this.flip(STEPS[this.view.step].part));
  }

  /** Another step; where all is in one column it is brought into sight. The focus stays where it can. */
  go(step) {
    this.changed({ step });
    if (!step) this.part(".walk-on").focus({ preventScroll: true }); // nothing is further back
    const behavior = matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth";
    if (matchMedia("(max-width: 899px)").matches) this.box.scrollIntoView({ behavior });
  }

  /** wanted: {run, text, token, layer, head, key, step, off}; isSeen: are the numbers of the step there? */
  draw(wanted, isSeen) {
    const isOther = ["run", "step", "token", "layer", "head"].some((each) => this.view?.[each] !== wanted[each]);
    if (isOther) this.asked = [];
    const view = (this.view = new View({ ...wanted, arrives: this.part(".walk-arrives input").checked }));
    const step = STEPS[view.step], isStart = !view.step, isEnd = step === STEPS.at(-1);
    this.overview.mark(view.step, view.layer);
    this.part(".walk-back").disabled = isStart;
    this.part(".walk-on").textContent = isEnd ? "Start again" : "Next →";
    if (!isSeen) return;
    const items = step.make(view), strips = items.filter(({ form }) => form === "strip").map(({ values }) => values);
    this.most = scaleOf(strips);
    const words = {
      ".walk-name": isStart ? step.name : `${view.step}. ${step.name}`,
      ".walk-says": step.says(view), ".walk-shape": step.shape, ".walk-code": step.code,
      ".walk-exercise": `You’ll write this in exercise ${step.exercise}`,
      ".walk-scale": strips.length && "A strip shows 384 features: red is above 0, blue is below. " +
        `${strips.length > 1 ? "All strips of a step have the same scale. It" : "The scale"} ends at ` +
        `±${short(this.most)}; the ${BEYOND}% of the features that are beyond have the darkest colours.`,
    };
    Object.entries(words).forEach(([name, text]) => (this.part(name).textContent = text || ""));
    this.part(".walk-exercise").href = this.links[step.exercise];
    this.part(".walk-source").hidden = isStart;
    this.part(".walk-arrives").hidden = !step.shares;
    this.part(".walk-payoff").hidden = !isEnd;
    const flip = this.part(".walk-flip"), isOff = view.off?.includes(step.part);
    flip.hidden = !step.part;
    flip.textContent = `Switch ${step.part === "head" ? "this head" : step.part} ${isOff ? "on again" : "off"}`;
    this.part(".walk-step").classList.toggle("walk-start", isStart);
    const list = () => this.part("ul.walk-numbers"), before = list()?.scrollTop;
    keepingFocus(this.part(".walk-items"), items.map((item) => this.item(item)));
    // Of a long list, the chosen token is in sight, and its key if it's near.
    const middle = Math.min(Math.max((view.token + view.key) / 2, view.token - 6), view.token + 6);
    if (list()) list().scrollTop = isOther ? ROW * (middle + 0.5) - list().clientHeight / 2 : before;
    this.answer();
  }

  /** One line of a step: what is done, what it is, its numbers. */
  item(item) {
    const { form, label, values, op = "" } = item;
    const lit = item.ask ? " framed: numbers of more than a third of the largest, + or −" : "";
    const ends = made("small", {}, { strip: ` largest: ${extremes(values)}`, cells: lit }[form] ?? "");
    const line = made("div", { class: "walk-item" }, made("span", { class: "walk-op" }, op));
    line.append(made("span", { class: "walk-label" }, label, ends), this[form](item));
    return line;
  }

  /** Hundreds of numbers as stripes; all strips of a step share one scale. */
  strip({ label, values, framed }) {
    const canvas = stripes(values, this.most, `${label}: ${values.length} features`);
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
      const label = ask || flow ? pressable(name, pick, { "aria-pressed": place === key, title: name }) : name;
      const track = made("span", { class: "walk-track" }, parts ? stripes(parts[place], most) : bar);
      const isChosen = place === token ? "walk-from walk-chosen" : "walk-from";
      const from = flow ? [made("span", { class: isChosen, "aria-hidden": true }, name)] : [];
      const to = made("span", { class: "walk-token" }, label);
      return made("li", {}, ...from, to, track, this.number(values[place], ask?.(place)));
    });
    if (flow) lines[0].prepend(flowOf(token, values));
    const style = `--longest:${Math.max(...names.map(({ length }) => length))}`;
    return made("ul", { class: flow ? "walk-numbers walk-flowing" : "walk-numbers", style }, ...lines);
  }

  /** A number; a button, if it can be asked where it comes from. */
  number(value, question, attributes = {}) {
    const all = { "data-value": value, title: `${value}`, ...attributes };
    const isNarrow = attributes.class && Math.abs(value) >= 1;
    const digits = short(value, isNarrow ? 1 : 2);
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

/** How far a scale of colours for some strips goes: most numbers are within, outliers are not. */
function scaleOf(strips) {
  const sizes = strips.flatMap((values) => Array.from(values, Math.abs)).sort((one, other) => one - other);
  return sizes[Math.floor((1 - BEYOND / 100) * (sizes.length - 1))];
}

/** The features furthest from 0, in words. */
function extremes(values) {
  const places = [...values.keys()].sort((one, other) => Math.abs(values[other]) - Math.abs(values[one]));
  return places.slice(0, LISTED).map((place) => `feature ${place} (${short(values[place])})`).join(", ");
}

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
  const style = `height:${ROW * values.length}px`; // as high as the list, with which it scrolls
  const box = made("span", { class: "walk-flow", "aria-hidden": true, style });
  box.innerHTML = `<svg viewBox="0 0 1 ${values.length}" preserveAspectRatio="none">${lines.join("")}</svg>`;
  return box;
}
