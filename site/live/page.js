// The live page: what is asked for, what is computed, what is shown.

import { paint, short, table } from "./heatmap.js";
import { cosine, headMap, load } from "./model.js";
import { nameOf, ROLES, score } from "./roles.js";
import { missing, remarks, tidy } from "./texts.js";

const LAYERS = 6, HEADS = 12;
const PATIENCE = 150; // milliseconds without a key, before the model runs
const BOY = "The boy saw the bear before the bear saw the boy.";
// What to look for first: texts, a head, and what is taken away.
const TRIES = [
  { name: "A word looks at its twin", texts: [BOY], head: [2, 9] },
  { name: "A head looks at the token before", texts: [BOY], head: [0, 2] },
  { name: "Take the positions away, and it is lost", texts: [BOY], head: [0, 2], positions: false },
  {
    name: "Without positions, who bit whom?",
    texts: ["The dog bit the man.", "The man bit the dog."],
    head: [0, 2],
    positions: false,
  },
  {
    name: "Without the mask, words look at padding",
    texts: ["Snow fell.", "Snow fell on the quiet town all night."],
    head: [3, 11],
    mask: false,
  },
];

const page = document.getElementById("live");
const part = (name) => page.querySelector(name);
const headButtons = () => [...page.querySelectorAll(".live-heads button")];
const fields = ["#live-first", "#live-second"].map(part);
const switches = { compare: part("#live-compare"), positions: part("#live-positions"), mask: part("#live-mask") };

let model = null; // until it is loaded
let about; // {bytes, difference, roles: role → (layers, heads)}
let picked = { layer: 2, head: 9 };
let shown; // {result, trained, texts, taken}: what the switches ask for; trained: with nothing taken away
let waiting = 0; // the number of the last wish; older ones are dropped

async function begin() {
  const [told, example] = await Promise.all(
    ["about.json", "example.json"].map(async (name) => (await fetch(new URL(name, import.meta.url))).json()),
  );
  about = told;
  readAddress(example.text);
  buildHeads();
  buildTries();
  const flat = Float32Array.from(example.maps.flat(3));
  const length = example.tokens.length;
  const result = { cuts: [{ tokens: example.tokens, left: 0 }], dims: [LAYERS, 1, HEADS, length, length], maps: flat };
  shown = { result, trained: result, texts: [example.text], taken: { mask: true, positions: true } };
  show();
  part("form").addEventListener("submit", submitted);
  fields.forEach((field) => field.addEventListener("input", () => wish(PATIENCE)));
  Object.values(switches).forEach((box) => box.addEventListener("change", () => wish(0)));
  switchOptions();
  say("Shown is a stored example.");
}

/** The text, head and switches of the address, as far as they make sense. */
function readAddress(fallback) {
  const wanted = new URLSearchParams(location.hash.slice(1));
  fields[0].value = wanted.get("text") ?? fallback;
  fields[1].value = wanted.get("with") ?? "";
  switches.compare.checked = wanted.has("with");
  for (const name of ["positions", "mask"]) switches[name].checked = wanted.get(name) !== "off";
  const [layer, head] = (wanted.get("head") ?? "").split(".").map(Number);
  if (Number.isInteger(layer) && Number.isInteger(head) && layer >= 0 && head >= 0 && layer < LAYERS && head < HEADS) {
    picked = { layer, head };
  }
}

function writeAddress() {
  const state = new URLSearchParams({ text: fields[0].value, head: `${picked.layer}.${picked.head}` });
  if (switches.compare.checked) state.set("with", fields[1].value);
  for (const name of ["positions", "mask"]) if (!switches[name].checked) state.set(name, "off");
  history.replaceState(null, "", `#${state}`);
}

function buildTries() {
  for (const { name, texts, head, positions = true, mask = true } of TRIES) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = name;
    button.addEventListener("click", () => {
      texts.forEach((text, place) => (fields[place].value = text));
      switches.compare.checked = texts.length > 1;
      switches.positions.checked = positions;
      switches.mask.checked = mask;
      picked = { layer: head[0], head: head[1] };
      submitted(); // whoever tries wants to see it, and so loads the model
    });
    part(".live-tries").append(button);
  }
}

function label(text) {
  const made = document.createElement("span");
  made.textContent = text;
  made.setAttribute("aria-hidden", true); // each head's button names layer and head
  return made;
}

function buildHeads() {
  part(".live-heads").append(label(""), ...Array.from({ length: HEADS }, (_, head) => label(head)));
  for (let layer = 0; layer < LAYERS; layer++) {
    part(".live-heads").append(label(layer));
    for (let head = 0; head < HEADS; head++) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(document.createElement("canvas"));
      const name = nameOf(about.roles, layer, head);
      button.setAttribute("aria-label", `Layer ${layer}, head ${head}: ${name}`);
      button.title = `L${layer}.H${head}: ${name}`;
      button.addEventListener("click", () => pick(layer, head));
      part(".live-heads").append(button);
    }
  }
  part(".live-heads").addEventListener("keydown", moved);
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
  writeAddress();
}

async function submitted(event) {
  event?.preventDefault();
  if (model) return wish(0);
  const button = part("#live-load"), bar = part("progress");
  if (button.disabled) return;
  button.disabled = true;
  bar.hidden = false;
  const begun = performance.now();
  try {
    model = await load(about.bytes, (loaded, total) => {
      bar.value = loaded / total;
      say(`${Math.round(loaded / 1e6)} of ${Math.round(total / 1e6)} MB`);
    });
    live.timings.load = performance.now() - begun;
    button.hidden = true;
    await wish(0);
  } catch (error) {
    say(`The model could not be loaded: ${error.message} Are you online? The example stays; try again.`);
    button.disabled = false;
  }
  bar.hidden = true;
}

function say(words) {
  part("#live-status").textContent = words;
}

/** The second field only where it is compared, the mask only where there is padding. */
function switchOptions() {
  part(".live-second").hidden = !switches.compare.checked;
  const padding = new Set(shown.result.cuts.map(({ tokens }) => tokens.length)).size > 1;
  switches.mask.disabled = !padding;
  part("#live-mask-why").textContent = padding ? "" : "(only where two texts of different lengths are compared)";
}

/** Compute what is asked for now, unless something newer is asked for in the meantime. */
async function wish(patience) {
  const mine = ++waiting;
  switchOptions();
  writeAddress();
  if (!model) return say("Shown is the stored example: load the model first.");
  await new Promise((done) => setTimeout(done, patience));
  if (mine !== waiting) return;
  const asked = fields.slice(0, switches.compare.checked ? 2 : 1);
  const tidied = asked.map((field) => tidy(field.value));
  const lacking = asked.map((field) => missing(field.value));
  lacking.forEach((words, place) => remark(place, words ? [words] : []));
  if (lacking.some(Boolean)) return;
  const texts = tidied.map(({ text }) => text);
  const taken = { mask: switches.mask.checked, positions: switches.positions.checked };
  const trained = await inTurn(() => model.run(texts));
  const result = taken.mask && taken.positions ? trained : await inTurn(() => model.run(texts, taken));
  if (mine !== waiting) return;
  result.cuts.forEach((cut, place) => remark(place, [...tidied[place].remarks, ...remarks(cut)]));
  shown = { result, trained, texts, taken };
  live.timings.run = result.milliseconds;
  say(`Computed in ${Math.round(result.milliseconds)} ms.`);
  switchOptions();
  show();
}

function remark(place, words) {
  part(["#live-first-remark", "#live-second-remark"][place]).textContent = words.join(" ");
}

let last = Promise.resolve();

/** The session runs one batch after the other. */
function inTurn(run) {
  const next = last.then(run);
  last = next.catch(() => {});
  return next;
}

function show() {
  headButtons().forEach((button, place) => {
    const rows = headMap(shown.result, Math.floor(place / HEADS), 0, place % HEADS);
    paint(button.firstChild, rows);
  });
  showHead();
}

/** The tokens of a text, with the padding that the longer one needs. */
function padded({ cuts, dims }, text) {
  const { tokens } = cuts[text];
  return [...tokens, ...Array(dims[3] - tokens.length).fill("[PAD]")];
}

function showHead() {
  const { layer, head } = picked;
  headButtons().forEach((button, place) => {
    const mine = place === layer * HEADS + head;
    button.tabIndex = mine ? 0 : -1;
    button.setAttribute("aria-pressed", mine);
  });
  part("#live-head-title").textContent = `Layer ${layer}, head ${head}: ${nameOf(about.roles, layer, head)}`;
  const { result, texts, taken } = shown;
  part(".live-views").classList.toggle("live-two", texts.length > 1);
  part("#live-heads-title").textContent = `All 72 heads${texts.length > 1 ? ", on the first text" : ""}`;
  const tables = texts.map((text, place) => {
    const real = result.cuts[place].tokens.length;
    const rows = headMap(result, layer, place, head);
    const behindMask = (j) => taken.mask && j >= real;
    const box = document.createElement("div");
    box.className = "live-box";
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", `Attention map, text ${place + 1}`);
    box.append(table(rows, padded(result, place), texts.length > 1 ? text : "", behindMask));
    return box;
  });
  part(".live-maps").replaceChildren(...tables);
  const without = taken.positions ? "" : "The positions are taken away.";
  part("#live-words").textContent = [without, alike(), padding(), strongest()].filter(Boolean).join(" ");
  showRoles();
}

/** The strongest look from one word to another, in words. */
function strongest() {
  const { tokens } = shown.result.cuts[0];
  const rows = headMap(shown.result, picked.layer, 0, picked.head);
  let best = [0, 0, 0];
  for (let i = 1; i < tokens.length - 1; i++) {
    for (let j = 1; j < tokens.length - 1; j++) if (i !== j && rows[i][j] > best[0]) best = [rows[i][j], i, j];
  }
  const [weight, i, j] = best;
  if (!weight) return "";
  const [from, to] = [i, j].map((place) => `“${tokens[place]}”, token ${place},`);
  return `Strongest between two words: ${from} looks at ${to} with ${short(weight)}.`;
}

/** How alike the model finds two texts. */
function alike() {
  const { result, trained } = shown;
  if (result.cuts.length < 2) return "";
  const now = short(cosine(...result.vectors)), before = short(cosine(...trained.vectors));
  return `The two texts have the cosine ${now}${now === before ? "" : `; with nothing taken away, ${before}`}.`;
}

/** How much weight falls on the padding, where no mask hides it. */
function padding() {
  const { result } = shown;
  if (shown.taken.mask) return "";
  const lengths = result.cuts.map(({ tokens }) => tokens.length);
  const shorter = lengths.indexOf(Math.min(...lengths)), real = lengths[shorter];
  if (real === result.dims[3]) return "";
  const rows = headMap(result, picked.layer, shorter, picked.head).slice(0, real);
  const onPads = rows.map((row) => row.slice(real).reduce((sum, weight) => sum + weight, 0));
  const mean = onPads.reduce((sum, each) => sum + each, 0) / real;
  return `Without the mask the shorter text gives ${short(mean)} of this head's weight to [PAD].`;
}

/** The table of roles: ten sentences of lesson 09, the texts, and the texts with nothing taken away. */
function showRoles() {
  const { result, trained, texts } = shown;
  const { layer, head } = picked;
  const inText = (run, place) => (role) => score(headMap(run, layer, place, head), run.cuts[place].tokens, role);
  const columns = { "ten sentences": (role) => about.roles[role][layer][head] };
  (texts.length > 1 ? ["first text", "second text"] : ["this text"]).forEach((name, place) => {
    columns[name] = inText(result, place);
    if (result !== trained) columns[`${name}, nothing taken away`] = inText(trained, place);
  });
  const line = (kind, texts) => {
    const row = document.createElement("tr");
    texts.forEach((text, place) => {
      const made = document.createElement(place && kind === "td" ? "td" : "th");
      if (made.tagName === "TH") made.scope = kind === "td" ? "row" : "col";
      made.textContent = text;
      row.append(made);
    });
    return row;
  };
  part(".live-roles thead").replaceChildren(line("th", ["role", ...Object.keys(columns)]));
  const number = (value) => (value === null ? "–" : short(value));
  const rows = ROLES.map((role) => line("td", [role, ...Object.values(columns).map((of) => number(of(role)))]));
  part(".live-roles tbody").replaceChildren(...rows);
}

/** For the tests, and for whoever looks behind: run texts without the page. */
const live = { timings: {}, run: (texts, options) => inTurn(() => model.run(texts, options)) };
window.live = live;
live.ready = begin().catch((error) => say(`The example could not be loaded: ${error.message}`));
