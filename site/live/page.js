// The live page: what is asked for, what is computed, what is shown.

import { read, write } from "./address.js";
import { cell, paint, table } from "./heatmap.js";
import { headMap, load } from "./model.js";
import { nameOf, roleRows } from "./roles.js";
import { missing, remarks, tidy } from "./texts.js";
import { TRIES } from "./tries.js";
import { told } from "./words.js";

const LAYERS = 6, HEADS = 12;
const PATIENCE = 150; // milliseconds without a key, before the model runs
const OVERHANG = 20; // pixels: less than that hides no token
const STORED = "Below is still the stored example: load the model to see what you ask for.";

const page = document.getElementById("live");
const part = (name) => page.querySelector(name);
const tryButtons = () => page.querySelectorAll(".live-tries button");
const headButtons = () => [...page.querySelectorAll(".live-heads button")];
const fields = ["#live-first", "#live-second"].map(part);
const remarkOf = ["#live-first-remark", "#live-second-remark"].map(part);
const switches = { compare: part("#live-compare"), positions: part("#live-positions"), mask: part("#live-mask") };

let model = null; // until it is loaded
let about; // {bytes, difference, roles: role → (layers, heads)}
let picked = { layer: 2, head: 9 };
let shown; // {result, trained, taken}: what the switches ask for; trained: with nothing taken away
let wishes = 0; // how many there were; only the newest counts

async function begin() {
  const [facts, example] = await Promise.all(
    ["about.json", "example.json"].map(async (name) => (await fetch(new URL(name, import.meta.url))).json()),
  );
  about = facts;
  const length = example.tokens.length;
  const result = {
    cuts: [{ tokens: example.tokens, left: 0 }],
    dims: [LAYERS, 1, HEADS, length, length],
    maps: Float32Array.from(example.maps.flat(3)),
  };
  shown = { result, trained: result, taken: { mask: true, positions: true } };
  const asked = read(location.hash, LAYERS, HEADS);
  ask({ ...picked, ...asked, texts: asked.texts.length ? asked.texts : [example.text] });
  buildHeads();
  buildTries();
  show();
  part("form").addEventListener("submit", (event) => {
    event.preventDefault();
    compute();
  });
  fields.forEach((field) => field.addEventListener("input", () => wish(PATIENCE)));
  Object.values(switches).forEach((box) => box.addEventListener("change", () => wish(0)));
  say(asked.texts.length ? STORED : "Shown is a stored example.");
}

/** Set the fields, the head and the switches. */
function ask({ texts, layer, head, positions = true, mask = true }) {
  texts.forEach((text, place) => (fields[place].value = text));
  switches.compare.checked = texts.length > 1;
  switches.positions.checked = positions;
  switches.mask.checked = mask;
  picked = { layer, head };
  showOptions();
}

/** What is asked for: {texts, layer, head, positions, mask} */
function asked() {
  const texts = fields.slice(0, switches.compare.checked ? 2 : 1).map((field) => field.value);
  return { texts, ...picked, positions: switches.positions.checked, mask: switches.mask.checked };
}

function say(words) {
  part("#live-status").textContent = words;
}

// ---------------------------------------------------------------------------------------------- to be pressed

function pressable(content, pressed) {
  const button = document.createElement("button");
  button.type = "button";
  button.append(content);
  button.addEventListener("click", pressed);
  return button;
}

function buildTries() {
  for (const { name, ...wanted } of TRIES) {
    const tried = async () => {
      for (const other of tryButtons()) other.setAttribute("aria-pressed", other === button);
      ask(wanted);
      await compute(); // whoever tries wants to see it, and so loads the model
      const map = part("#live-head-title");
      if (map.getBoundingClientRect().top > innerHeight / 3) map.scrollIntoView();
    };
    const button = pressable(name, tried);
    part(".live-tries").append(button);
  }
}

/** A grid: a row for each layer, its number in front, the numbers of the heads above. */
function buildHeads() {
  const numbers = (count) => Array.from({ length: count }, (_, number) => number);
  const label = (text) => cell("span", text, { "aria-hidden": true }); // each button names its layer and head
  const grid = part(".live-heads");
  grid.append(label(""), ...numbers(HEADS).map(label));
  for (const layer of numbers(LAYERS)) {
    grid.append(label(layer));
    for (const head of numbers(HEADS)) {
      const button = pressable(document.createElement("canvas"), () => pick(layer, head));
      const name = nameOf(about.roles, layer, head);
      button.setAttribute("aria-label", `Layer ${layer}, head ${head}: ${name}`);
      button.title = `L${layer}.H${head}: ${name}`;
      grid.append(button);
    }
  }
  grid.addEventListener("keydown", moved);
}

const STEPS = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -HEADS, ArrowDown: HEADS };

function moved(event) {
  const buttons = headButtons();
  const now = picked.layer * HEADS + picked.head;
  const ends = { Home: 0, End: buttons.length - 1 };
  const next = event.key in ends ? ends[event.key] : now + (STEPS[event.key] ?? NaN);
  if (!buttons[next]) return;
  event.preventDefault();
  pick(Math.floor(next / HEADS), next % HEADS);
  buttons[next].focus();
}

function pick(layer, head) {
  picked = { layer, head };
  showHead();
  history.replaceState(null, "", write(asked()));
}

// ------------------------------------------------------------------------------------------------ to be computed

/** Compute what is asked for; load the model first if it is not there. */
async function compute() {
  const button = part("#live-load"), bar = part("progress");
  if (model) return wish(0);
  if (button.disabled) return;
  button.disabled = true;
  bar.hidden = false;
  const begun = performance.now();
  try {
    model = await load(about.bytes, (loaded, total) => {
      bar.value = loaded / total;
      const millions = [loaded, total].map((bytes) => Math.round(bytes / 1e6));
      say(loaded < total ? `${millions[0]} of ${millions[1]} MB` : "Starting the model …");
    });
    live.timings.load = performance.now() - begun;
    button.textContent = "The model is loaded: type your own";
  } catch (error) {
    say(`The model could not be loaded: ${error.message} Are you online? The example stays; try again.`);
    button.disabled = false;
  }
  bar.hidden = true;
  if (model) await wish(0);
}

/** Compute what is asked for now, after some patience, unless something newer is asked for in the meantime. */
async function wish(patience) {
  const mine = ++wishes;
  showOptions();
  if (patience) for (const button of tryButtons()) button.setAttribute("aria-pressed", false);
  history.replaceState(null, "", write(asked()));
  if (!model) return say(STORED);
  await new Promise((done) => setTimeout(done, patience));
  if (mine !== wishes) return;
  try {
    const found = await computed(asked());
    if (found && mine === wishes) {
      shown = found;
      say(`Computed in ${Math.round(found.result.milliseconds)} ms.`);
      live.timings.run = found.result.milliseconds;
      showOptions();
      show();
    }
  } catch (error) {
    say(`That could not be computed: ${error.message}`);
  }
}

/** {result, trained, taken}, or null if a text is missing. */
async function computed({ texts, positions, mask }) {
  const lacking = texts.map(missing);
  lacking.forEach((words, place) => (remarkOf[place].textContent = words ?? ""));
  if (lacking.some(Boolean)) return null;
  const tidied = texts.map(tidy);
  const trained = await inTurn(() => model.run(tidied.map(({ text }) => text)));
  trained.cuts.forEach((cut, place) => {
    remarkOf[place].textContent = [...tidied[place].remarks, ...remarks(cut)].join(" ");
  });
  const taken = { positions, mask: mask || !hasPadding(trained) };
  if (taken.positions && taken.mask) return { result: trained, trained, taken };
  const result = await inTurn(() => model.run(tidied.map(({ text }) => text), taken));
  return { result, trained, taken };
}

let last = Promise.resolve();

/** The session runs one batch after the other. */
function inTurn(run) {
  const next = last.then(run);
  last = next.catch(() => {});
  return next;
}

/** Whether one text is shorter than the other. */
function hasPadding({ cuts }) {
  return new Set(cuts.map(({ tokens }) => tokens.length)).size > 1;
}

// --------------------------------------------------------------------------------------------------- to be seen

/** The second field only where it is compared, the mask only where there is padding. */
function showOptions() {
  part(".live-second").hidden = !switches.compare.checked;
  const padding = hasPadding(shown.result);
  switches.mask.disabled = !padding;
  switches.mask.checked ||= !switches.compare.checked;
  part("#live-mask-why").textContent = padding ? "" : "(only where two texts of different lengths are compared)";
}

function show() {
  headButtons().forEach((button, place) => {
    paint(button.firstChild, headMap(shown.result, Math.floor(place / HEADS), 0, place % HEADS));
  });
  const two = shown.result.cuts.length > 1;
  part(".live-views").classList.toggle("live-two", two);
  part("#live-heads-title").textContent = two ? "All 72 heads, on the first text" : "All 72 heads";
  showHead();
}

function showHead() {
  const { layer, head } = picked;
  headButtons().forEach((button, place) => {
    const mine = place === layer * HEADS + head;
    button.tabIndex = mine ? 0 : -1;
    button.setAttribute("aria-pressed", mine);
  });
  part("#live-head-title").textContent = `Layer ${layer}, head ${head}: ${nameOf(about.roles, layer, head)}`;
  part("#live-words").textContent = told(shown, layer, head);
  part(".live-maps").replaceChildren(...shown.result.cuts.map((_, text) => mapOf(text)));
  const [names, ...rows] = roleRows(about.roles, shown, layer, head);
  const roles = part(".live-roles");
  roles.replaceChildren(roles.caption);
  roles.createTHead().append(names);
  roles.createTBody().append(...rows);
  const box = part(".live-maps .live-box");
  part(".live-scroll").hidden = box.scrollWidth < box.clientWidth + OVERHANG;
}

/** The large map of a text, in a box that scrolls. */
function mapOf(text) {
  const { result, taken } = shown;
  const { tokens } = result.cuts[text];
  const padded = [...tokens, ...Array(result.dims[3] - tokens.length).fill("[PAD]")];
  const rows = headMap(result, picked.layer, text, picked.head);
  const caption = result.cuts.length > 1 ? ["First text", "Second text"][text] : "";
  const box = cell("div", "", { class: "live-box", tabindex: 0, role: "region" });
  box.setAttribute("aria-label", caption ? `Attention map: ${caption}` : "Attention map");
  box.append(table(rows, padded, caption, (key) => taken.mask && key >= tokens.length));
  return box;
}

/** For the tests, and for whoever looks behind: run texts without the page. */
const live = { timings: {}, run: (texts, options) => inTurn(() => model.run(texts, options)) };
window.live = live;
live.ready = begin().catch((error) => say(`The example could not be loaded: ${error.message}`));
