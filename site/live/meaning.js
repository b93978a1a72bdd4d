// Texts compared by their embeddings, and a word that they share, layer by layer.

import { cell, made, short, tableOf } from "./dom.js";
import { ofSigned, style } from "./heatmap.js";
import { LAYERS, cosine, range } from "./run.js";

export const MOST_TEXTS = 6;

/** How alike the texts of a run are, and, entering and after each layer, the longest word that all share. */
export function compared(run) {
  const texts = run.cuts.map((_, text) => text);
  const alike = (vectors) => vectors.map((one) => vectors.map((other) => cosine(one, other)));
  const found = { cuts: run.cuts, cosines: alike(texts.map((text) => run.vector(text))) };
  const words = run.cuts[0].tokens.slice(1, -1).filter((token) => /^(?!the$|and$)\p{L}{3}/u.test(token));
  const shared = words.filter((token) => run.cuts.every(({ tokens }) => tokens.includes(token)));
  found.word = shared.sort((one, other) => other.length - one.length)[0];
  if (found.word) {
    const places = run.cuts.map(({ tokens }) => tokens.indexOf(found.word));
    const rows = (part, layer) => places.map((place, text) => run.row(part, text, place, layer));
    found.stages = [rows("entering", 0), ...range(LAYERS).map((layer) => rows("leaving", layer))].map(alike);
  }
  return found;
}

/** It in words, as lines from layer to layer, and in tables. off: the names of what is switched off */
export function drawn({ cosines, word, stages }, texts, off) {
  const pairs = texts.flatMap((_, i) => range(i).map((j) => [j, i]));
  const alike = (value) => cell(short(value), { style: style(ofSigned(value, 1)) });
  const rows = texts.map((text, i) => {
    return [`${i + 1}. ${text}`, ...cosines[i].map((value, j) => (j < i ? alike(value) : cell("")))];
  });
  const caption = "Cosine similarity of the sentence embeddings";
  const isTwo = texts.length < 3, without = off.length ? `Computed without ${off.join(" and ")}. ` : "";
  const most = isTwo ? "" : `As a whole, texts ${nameOf(closest(cosines, pairs))} are the most similar. `;
  const sentences = [
    tableOf(caption, ["text", ...texts.map((_, i) => i + 1)], rows),
    made("p", {}, `${without}${most}It’s a small model, and it can be wrong.`),
  ];
  if (!word) return sentences;
  const lines = pairs.map(([i, j]) => [nameOf([i, j]), ...stages.map((stage) => alike(stage[i][j]))]);
  const each = `Cosine similarity of “${word}” in two texts, at the input and after each layer`;
  return [
    ...sentences,
    made("p", {}, developed(word, stages, pairs, off)),
    chart(stages, pairs, `${each}. The table below has the numbers.`),
    tableOf(each, ["texts", ...STAGES], lines),
  ];
}

const nameOf = (pair) => pair.map((text) => text + 1).join(" and ");
const closest = (cosines, pairs) => largestBy(pairs, ([i, j]) => cosines[i][j]);
const largestBy = (all, size) => all.reduce((best, each) => (size(each) > size(best) ? each : best));

/** What the layers make of a word that all texts share. */
function developed(word, stages, pairs, off) {
  const among = (stage) => pairs.map(([i, j]) => stage[i][j]), last = stages.at(-1);
  const between = (numbers) => [...new Set([short(Math.min(...numbers)), short(Math.max(...numbers))])].join(" to ");
  const isPlaced = !off.includes("positions");
  const differ = isPlaced ? "only the positions can differ" : "there are no positions to tell them apart";
  const most = pairs.length > 1 ? ` “${word}” is most similar in texts ${nameOf(closest(last, pairs))}.` : "";
  const end = between(among(last));
  const later = end === "1.00" ? "still 1.00" : `${end}, because each vector depends on its sentence`;
  return `The same word, ${pairs.at(-1)[1] + 1} vectors: at the input, the vectors of “${word}” in two texts ` +
    `have a cosine similarity of ${between(among(stages[0]))}, because ${differ}. ` +
    `After layer ${LAYERS - 1} it’s ${later}.${most}`;
}

const STAGES = ["input", "layer 0", ...range(LAYERS).slice(1)];
const RIGHT = 70, LEFT = 40, EDGE = 12; // pixels
// Each stands out on light and on dark; after the sixth line the same come dashed, then dotted.
const COLOURS = ["#0e72c1", "#c05010", "#1a8754", "#9a4fd0", "#d1408a", "#80766a"], DASHES = ["none", "7 3", "2 3"];

/** A line for each pair of texts: from the input, through all layers, to its name. */
function chart(stages, pairs, description) {
  const wide = Math.min(640, innerWidth - 40), right = wide - RIGHT;
  const tall = Math.max(130, EDGE * (pairs.length + 3));
  const least = Math.min(0.9, Math.floor(10 * Math.min(...stages.flat(2))) / 10);
  const x = (stage) => LEFT + (stage * (right - LEFT)) / (stages.length - 1);
  const y = (value) => EDGE + ((1 - value) * (tall - 3 * EDGE)) / (1 - least);
  const names = apart(pairs.map(([i, j]) => y(stages.at(-1)[i][j])), tall - 2 * EDGE);
  const lines = pairs.map(([i, j], pair) => {
    const points = stages.map((stage, place) => `${x(place)},${y(stage[i][j])}`).join(" ");
    const look = `stroke="${COLOURS[pair % 6]}" stroke-dasharray="${DASHES[Math.floor(pair / 6)]}"`;
    const [from, to] = [y(stages.at(-1)[i][j]), names[pair]];
    const end = `<text x="${right + 22}" y="${to + 4}">${nameOf([i, j])}</text>`;
    const leads = `<line x1="${right}" y1="${from}" x2="${right + 18}" y2="${to}" ${look}/>`; // thin: no numbers
    return `<polyline points="${points}" ${look}/>${leads}${end}`;
  });
  const marks = STAGES.map((name, place) => `<text x="${x(place)}" y="${tall - 4}">${name}</text>`);
  const ends = [1, least].map((value) => {
    return `<text x="0" y="${y(value) + 4}">${short(value)}</text><path d="M${LEFT} ${y(value)}H${right}"/>`;
  });
  const box = made("div", { class: "live-chart", role: "img", "aria-label": description });
  box.innerHTML = `<svg viewBox="0 0 ${wide} ${tall}" aria-hidden="true">${[...ends, ...marks, ...lines].join("")}</svg>`;
  return box;
}

/** Where names go: each next to the end of its line, a line of text apart, and none below the lowest. */
function apart(ends, lowest) {
  const order = [...ends.keys()].sort((one, other) => ends[one] - ends[other]), places = [];
  order.forEach((each, rank) => (places[each] = Math.max(ends[each], rank ? places[order[rank - 1]] + EDGE : 0)));
  order.reverse().forEach((each, rank) => (places[each] = Math.min(places[each], lowest - rank * EDGE)));
  return places;
}
