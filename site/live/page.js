// The live page: what is asked for, what is computed, what is shown.

import { read, write } from "./address.js";
import { arrows, keepingFocus, made, pressable } from "./dom.js";
import { mostOf, table, thumbnail } from "./heatmap.js";
import { MOST_TEXTS, compared, drawn } from "./meaning.js";
import { isKept, load } from "./model.js";
import { nameOf, roleTable } from "./roles.js";
import { HEADS, LAYERS, View, largest, range, stored } from "./run.js";
import { STEPS } from "./steps.js";
import { missing, pieces, remarks, tidy } from "./texts.js";
import { Walk } from "./walk.js";
import { beginning, cost, told } from "./words.js";

const PATIENCE = 150; // milliseconds without a key, before the model runs
const SECOND = "The young cat met the old cat.";
const SOFTMAX = STEPS.findIndex(({ name }) => name === "Softmax"), END = STEPS.length - 1, POOLING = END - 1;

const page = document.getElementById("live");
const part = (name) => page.querySelector(name);
const all = (name) => [...page.querySelectorAll(name)];
const fields = ["#live-first", "#live-second"].map(part);
const remarkOf = ["#live-first-remark", "#live-second-remark"].map(part);
const SWITCHES = ["compare", "positions", "mask", "head", "layer"];
const switches = Object.fromEntries(SWITCHES.map((name) => [name, part(`#live-${name}`)]));
// What can be switched off, and how it's named then.
const PARTS = { positions: "positions", head: "this head", layer: "this layer", mask: "the padding mask" };

let run = null; // the model, once it is loaded
let about; // {files, version, whole, roles: role → (layers, heads), exercises, tries, banks}
let view = { text: 0, key: null }; // {run, text, token, layer, head, key, step}; key: null if none is picked
let shown; // {result, trained, taken, texts}: what the switches ask for; trained: with nothing taken away
let wishes = 0; // how many there were; only the newest counts
let walk;
let lastTry = -1; // −1: none
let lastSwitch; // next to which the cost is told
let isTyped = false; // is the first sentence the reader's own, just typed?
let offered = ""; // the texts that the last step compares by itself
let compares; // what it compares, and without what

async function begin() {
  [about] = await Promise.all([got("about.json"), got("try-0.json")]);
  shown = await storedTry(0);
  walk = new Walk(part(".walk"), { changed, flip, links: about.exercises });
  buildHeads();
  part(".live-tries").append(...about.tries.map(({ name }, place) => pressable(name, () => tried(place))));
  listen();
  follow();
  if (await isKept(about)) await loaded("Your browser kept the model");
}

/** From here on every button works; pressed before, a button would reload the page. */
function listen() {
  const on = (target, kind, does) => target.addEventListener(kind, does);
  const submitted = (form, does) => on(form, "submit", (event) => (event.preventDefault(), does()));
  submitted(part(".live-form"), typeOwn);
  submitted(part(".live-compare"), compareMeanings);
  fields.forEach((field) => on(field, "input", () => ((isTyped ||= field === fields[0]), wish(PATIENCE))));
  on(switches.compare, "change", () => (fields[1].value ||= SECOND)); // something to begin with
  SWITCHES.forEach((name) => on(switches[name], "change", () => ((lastSwitch = name), wish(0))));
  arrows(part(".live-tokens"), "button", (token) => changed({ token, key: null }));
  const slider = part("#live-layer-number");
  on(slider, "input", () => changed({ layer: slider.valueAsNumber, key: null }));
  const whole = part(".live-whole"), isWhole = () => document.fullscreenElement;
  on(whole, "click", () => (isWhole() ? document.exitFullscreen() : page.requestFullscreen()));
  on(window, "fullscreenchange", () => (whole.textContent = isWhole() ? "Leave full screen" : "Full screen"));
  on(window, "hashchange", () => location.hash === write(asked()) || follow());
  all("[type=submit]").forEach((button) => (button.disabled = false));
}

/** Show what the address asks for, if it can be shown. */
function follow() {
  const wanted = read(location.hash, LAYERS, HEADS, STEPS.length), [first] = about.tries;
  ask({ ...first, step: 0, ...wanted, texts: wanted.texts.length ? wanted.texts : first.texts });
}

/** Set the fields, the view and the switches, and show that. */
function ask({ texts, layer, head, token = 0, step = 0, positions = true, mask = true }) {
  texts.forEach((text, place) => (fields[place].value = text));
  const ticked = { compare: texts.length > 1, positions, mask, head: true, layer: true };
  SWITCHES.forEach((name) => (switches[name].checked = ticked[name]));
  part(".live-off").open ||= !positions || !mask;
  view = { ...view, layer, head, token, step, key: null };
  isTyped = false;
  wish(0);
}

/** The field for one's own sentence, when the model is there to compute it. */
async function typeOwn() {
  if (!(run ? wish(0) : await loaded())) return;
  part(".live-own").open = true;
  if ([document.body, part("#live-load")].includes(document.activeElement)) fields[0].focus();
}

/** What is asked for: {texts, layer, head, token, step, positions, mask} */
function asked() {
  const texts = fields.slice(0, switches.compare.checked ? 2 : 1).map((field) => field.value);
  return { ...view, texts, positions: switches.positions.checked, mask: switches.mask.checked };
}

/** Whether head and layer are there. */
const hasAllHeads = () => switches.head.checked && switches.layer.checked;

/** Which try has what is asked for, or that with nothing taken away: best the last one; −1 if none has. */
function tryOf({ texts, positions, mask }) {
  const isStored = (each) => (positions && mask) || (positions === each.positions && mask === each.mask);
  const fits = (each) => each?.texts.join("\n") === texts.join("\n") && isStored(each);
  const places = hasAllHeads() ? [lastTry, ...about.tries.keys()] : [];
  return (lastTry = places.find((place) => fits(about.tries[place])) ?? -1);
}

const switchedOff = () => Object.keys(PARTS).filter((name) => !switches[name].checked);

/** Switch a part off or on again, where the reader sees what that changes. */
const flip = (name) => ((part(".live-off").open = true), switches[name].click());

/** What goes on; asking: is something else shown than what is asked for? */
function say(words, asking = false) {
  part("#live-status").textContent = words;
  part("#live-status").classList.toggle("live-notice", asking);
}

/** The reader picks another token, layer, head, key or step. */
function changed(wanted) {
  view = { ...view, ...wanted };
  history.replaceState(null, "", write(asked()));
  if (hasAllHeads()) showView();
  else wish(0);
}

// ------------------------------------------------------------------------------------------ to be pressed

function tried(place) {
  lastTry = place;
  ask(about.tries[place]);
}

/** A grid: a row for each layer, its number in front, the numbers of the heads above. */
function buildHeads() {
  const label = (text) => made("span", { "aria-hidden": true }, text); // each button names its layer and head
  const grid = part(".live-heads");
  grid.append(label(""), ...range(HEADS).map(label));
  for (const layer of range(LAYERS)) {
    const buttons = range(HEADS).map((head) => {
      const name = `Layer ${layer}, head ${head}: ${nameOf(about.roles, layer, head)}`;
      const pick = () => changed({ layer, head, key: null });
      return pressable(made("canvas"), pick, { "aria-label": name, title: name });
    });
    grid.append(label(layer), ...buttons);
  }
  const another = (place) => changed({ layer: Math.floor(place / HEADS), head: place % HEADS, key: null });
  arrows(grid, "button", another, HEADS);
}

// ------------------------------------------------------------------------------------------ to be computed

/** Load the model, and compute what is asked for; false if it could not be loaded. */
async function loaded(words = "The model is loaded") {
  const button = part("#live-load"), bar = part("progress");
  if (!bar.hidden) return false; // it's on its way
  [button.disabled, bar.hidden] = [true, false];
  try {
    run = await load(about, (share) => {
      bar.value = share;
      say(share < 1 ? `${Math.round(share * about.whole)} of ${about.whole} MB` : "Starting the model …");
    });
    button.textContent = `${words}: type your own sentence`;
    say("");
    await wish(0);
  } catch (error) {
    const why = error.message.replace(/\.?$/, ".");
    say(`The model could not be loaded: ${why} Are you online? Try again; the example works without it.`);
  }
  [button.disabled, bar.hidden] = [false, true];
  return Boolean(run);
}

/** Show what is asked for, after some patience, unless something newer is asked for in the meantime. */
async function wish(patience) {
  const mine = ++wishes, busy = (is) => part(".live-views").setAttribute("aria-busy", is);
  busy(true);
  await granted(patience, mine);
  if (mine === wishes) busy(false);
}

async function granted(patience, mine) {
  const place = tryOf(asked());
  part(".live-second").hidden = !switches.compare.checked;
  all(".live-tries button").forEach((button, each) => button.setAttribute("aria-pressed", each === place));
  history.replaceState(null, "", write(asked()));
  if (!run && place < 0) {
    const load = `load the model (${about.whole} MB, once) to see what you asked for.`;
    return show(shown, `This is still the stored example: ${load}`, true);
  }
  await new Promise((done) => setTimeout(done, patience));
  if (mine !== wishes) return;
  try {
    const found = await (run ? computed(asked()) : storedTry(place));
    if (!found || mine !== wishes) return;
    const { milliseconds, only } = found.result;
    if (isTyped && run) {
      const { token, key } = beginning(found.result, view.layer, view.head);
      [view, isTyped] = [{ ...view, token, key }, false];
      history.replaceState(null, "", write(asked()));
    }
    const example = `This is a stored example, with every step of layer ${only}.`;
    const more = "To try other layers or your own sentence, load the model.";
    show(found, run ? `Computed in ${Math.round(milliseconds)} ms.` : `${example} ${more}`);
  } catch (error) {
    say(`That could not be ${run ? "computed" : "loaded"}: ${error.message}`);
  }
}

/** A try as it is stored, or with nothing taken away: {result, trained, taken}. */
async function storedTry(place) {
  const { positions, mask } = asked(), made = await got(`try-${place}.json`), { texts } = about.tries[place];
  const trained = stored(made.trained ?? made.run);
  if (positions && mask) return { result: trained, trained, taken: { positions, mask }, texts };
  return { result: stored(made.run), trained, taken: made.taken, texts };
}

const files = {}; // what has been read, by name

/** The content of a file next to this one. */
async function got(name) {
  if (files[name]) return files[name];
  const answer = await fetch(new URL(name, import.meta.url));
  if (!answer.ok) throw new Error(`${name} is not there (${answer.status}).`);
  return (files[name] = await answer.json());
}

/** {result, trained, taken}, or nothing if a text is missing. */
async function computed({ texts, positions, mask, layer, head }) {
  const lacking = texts.map(missing);
  remarkOf.forEach((remark, place) => (remark.textContent = lacking[place] ?? ""));
  if (lacking.some(Boolean)) return say("");
  const tidied = texts.map(tidy);
  const runTidied = (taken) => run(tidied.map(({ text }) => text), taken);
  const trained = await runTidied({});
  trained.cuts.forEach((cut, place) => {
    remarkOf[place].textContent = [...tidied[place].remarks, ...remarks(cut)].join(" ");
  });
  const heads = switches.head.checked ? [] : [[layer, head]], layers = switches.layer.checked ? [] : [layer];
  const taken = { positions, mask: mask || !hasPadding(trained), heads, layers };
  const isWhole = taken.positions && taken.mask && hasAllHeads();
  return { result: isWhole ? trained : await runTidied(taken), trained, taken, texts };
}

/** Whether one text is shorter than the other. */
const hasPadding = ({ cuts }) => new Set(cuts.map(({ tokens }) => tokens.length)).size > 1;

/** The last step compares what the reader looks at, unless somebody typed other texts there. */
function compareShown() {
  const { texts, taken } = shown, field = part("#live-texts"), [isTwo, stored] = [texts.length > 1, about.banks.texts];
  const offer = isTwo ? texts : isStored(texts) ? stored : [...texts, ...stored]; // a single text needs some others
  if (!field.value.trim() || field.value === offered) field.value = offered = offer.join("\n");
  const wanted = JSON.stringify([field.value === offered, texts, taken]);
  if (wanted !== compares && (run || field.value === offered)) compareMeanings();
  compares = wanted;
}

/** Two to six texts, one a line. */
async function compareMeanings() {
  const texts = part("#live-texts").value.split("\n").map((text) => tidy(text).text.trim()).filter(Boolean);
  const tell = (words) => void (part("#live-meaning-status").textContent = words);
  if (texts.length < 2) return tell("Type at least two texts, each on its own line.");
  const read = texts.slice(0, MOST_TEXTS), isRead = (each) => each.texts.join("\n") === read.join("\n");
  const kept = run ? [] : [{ texts: shown.texts, ...shown.result.compared }, { ...about.banks, isWhole: true }];
  const known = kept.find((each) => each.cosines && isRead(each));
  if (!known && !run && !(await loaded())) return tell(part("#live-status").textContent);
  if (!known) tell("Comparing …");
  const { taken } = shown, failed = ({ message }) => tell(`That could not be computed: ${message}`);
  const found = known ?? (await run(read, taken).then(compared).catch(failed));
  if (!found) return;
  const left = texts.length > MOST_TEXTS ? [`Only the first ${MOST_TEXTS} of ${texts.length} texts are compared.`] : [];
  if (known?.isWhole && switchedOff().length) left.push("These numbers are the whole model’s.");
  tell([...left, ...new Set((found.cuts ?? []).flatMap(remarks))].join(" "));
  part(".live-meaning").replaceChildren(...drawn(found, read, known?.isWhole ? [] : gone(taken)));
}

/** How what is taken away is named. */
function gone({ positions, mask, heads = [], layers = [] }) {
  const isThere = { positions, mask, head: !heads.length, layer: !layers.length };
  return Object.keys(PARTS).flatMap((name) => (isThere[name] ? [] : PARTS[name]));
}

// ---------------------------------------------------------------------------------------------- to be seen

function show(found, words, asking) {
  shown = found;
  say(words, asking);
  const { result } = shown, padding = hasPadding(result), two = result.cuts.length > 1;
  switches.mask.disabled = !padding;
  switches.mask.checked ||= !switches.compare.checked;
  part("#live-mask-why").textContent = padding ? "" : "(needs two texts of different lengths)";
  all(".live-heads button").forEach((button, place) => {
    thumbnail(button.firstChild, result.map(0, Math.floor(place / HEADS), place % HEADS));
  });
  part("#live-heads-title").textContent = two ? "All 72 heads, on the first text" : "All 72 heads";
  part(".live-views").classList.toggle("live-two", two);
  const off = switchedOff();
  const at = off.includes(lastSwitch) ? lastSwitch : off[0];
  const told = asking ? "Load the model to see what changes." : cost(found, off.map((name) => PARTS[name]));
  all(".live-off output").forEach((each) => (each.textContent = each.htmlFor.value === `live-${at}` ? told : ""));
  showView();
}

/** What there is to see in the map, or what the map has to do with what is shown. */
function look() {
  const { layer, head, step, token } = view, { result, taken, texts } = shown;
  const off = [taken.layers?.length && `Layer ${layer}`, taken.heads?.length && "This head"].find(Boolean);
  if (off) return `${off} is switched off: the map shows attention weights that nothing uses.`;
  const isShown = (each) => each.layer === layer && each.head === head && each.texts.join("\n") === texts.join("\n") &&
    each.positions === taken.positions && each.mask === taken.mask;
  const found = about.tries.find(isShown);
  const isOver = step >= POOLING && found?.step !== END;
  if (isOver) return "This step uses no attention map: the one below belongs to steps 4 to 8.";
  if (found || isStored(texts)) return (hasAllHeads() && !part(".live-notice") && found?.look) || "";
  const first = beginning(result, layer, head);
  return token === first.token ? first.why : "";
}

/** Whether a try has the first of some texts. */
const isStored = ([text]) => about.tries.some(({ texts }) => texts[0] === text);

/** What depends on the token, the layer, the head and the step. */
function showView() {
  const { result } = shown, { tokens } = result.cuts[0];
  view = { ...view, run: result, token: Math.min(view.token, tokens.length - 1) };
  const { layer, head, token } = view, isTaken = shown.taken.layers?.includes(layer);
  all(".live-heads button").forEach((button, place) => {
    const mine = place === layer * HEADS + head;
    button.tabIndex = mine ? 0 : -1;
    button.setAttribute("aria-pressed", mine);
  });
  const chips = tokens.map((name, place) =>
    pressable(name, () => changed({ token: place, key: null }), {
      role: "radio", "aria-checked": place === token, tabindex: place === token ? 0 : -1,
    }),
  );
  keepingFocus(part(".live-tokens"), chips);
  part("#live-pieces").textContent = pieces(result.cuts.flatMap((cut) => cut.tokens));
  [part("#live-layer-number").value, part("#live-layer-name").textContent] = [layer, layer];
  part("#live-head-title").textContent = `Layer ${layer}, head ${head}: ${nameOf(about.roles, layer, head)}`;
  part("#live-words").textContent = told(shown, layer, head);
  part(".live-look").textContent = look();
  part(".live-maps").replaceChildren(...result.cuts.map((_, text) => mapOf(text)));
  part(".live-roles").replaceChildren(roleTable(about.roles, shown, layer, head));
  const canWalk = (result.holds(layer) && !isTaken) || view.step === END;
  [part(".walk-unseen").hidden, part(".walk-stage").hidden] = [canWalk, !canWalk];
  part(".walk-unseen").textContent = isTaken
    ? `Layer ${layer} is switched off: every token passes through it unchanged.`
    : "Of this layer, only the attention maps are stored: load the model to walk through it.";
  if (view.step === END) compareShown();
  walk.draw({ ...view, off: switchedOff() }, canWalk);
}

/** The map of a text, in a box that scrolls; a click or a key picks a weight and asks where it comes from. */
function mapOf(text) {
  const { result, taken } = shown, names = result.names(text), rows = result.map(text, view.layer, view.head);
  const caption = result.cuts.length > 1 ? ["First text", "Second text"][text] : "";
  const strongest = rows.map((row, i) => `${names[i]} to ${names[largest(row)]}`).join(", ");
  const keys = text ? "" : "Use the arrow keys to pick a weight, and Enter to see where it comes from.";
  const name = `Attention map. ${caption} Largest weight of each token: ${strongest}. ${keys}`;
  const box = made("div", { class: "live-box", tabindex: 0, role: "region", "aria-label": name });
  const most = mostOf(rows).toFixed(2);
  const picked = (query, key) => {
    pick(query, key);
    if (result.holds(view.layer)) walk.ask({ kind: "weight", key });
  };
  const seen = taken.mask ? result.cuts[text].tokens.length : Infinity;
  const first = { picked, at: [view.token, view.key] }, second = { picked: () => {}, at: [] };
  box.append(table(rows, names, { caption, seen, ...(text ? second : first) }));
  box.append(made("p", { class: "live-bar" }, "0", made("span"), most));
  if (!text) box.addEventListener("keydown", (event) => movedOn(event, rows.length, picked));
  return box;
}

const pick = (query, key) => changed({ token: query, key, step: SOFTMAX });

const AXES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Enter: [0, 0] };

/** The arrow keys on the map: another query, another key; Enter asks for the weight. */
function movedOn(event, length, picked) {
  const now = [view.token, new View(view).key], next = AXES[event.key];
  if (!next) return;
  event.preventDefault();
  const [query, key] = now.map((place, axis) => Math.min(Math.max(place + next[axis], 0), length - 1));
  if (event.key === "Enter") return picked(query, key);
  pick(query, key);
  part(".live-maps .live-box").focus();
  part(".live-map .live-cell")?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

/** For the tests and for curious readers: run texts without the page, and the numbers of every step. */
const live = {
  run: (texts, taken) => run(texts, taken),
  steps: (wanted) => STEPS.map(({ make }) => make(new View(wanted))),
  view: () => view,
};
window.live = live;
live.ready = begin().catch((error) => say(`The example could not be loaded: ${error.message}`));
