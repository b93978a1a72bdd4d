// What the encoder is for: texts compared by meaning, and a word that they share, layer by layer.

import { made, ofSigned, short, style } from "./heatmap.js";
import { LAYERS, cosine } from "./run.js";

export const MOST_TEXTS = 6;

/** How alike the texts of a run are, and before the first layer and after each the longest word that all share. */
export function compared(run) {
  const texts = run.cuts.map((_, text) => text);
  const alike = (vectors) => vectors.map((one) => vectors.map((other) => cosine(one, other)));
  const found = { cosines: alike(texts.map((text) => run.vector(text))) };
  const words = run.cuts[0].tokens.slice(1, -1).filter((token) => /^\p{L}{3}/u.test(token));
  const shared = words.filter((token) => run.cuts.every(({ tokens }) => tokens.includes(token)));
  found.word = shared.sort((one, other) => other.length - one.length)[0];
  if (found.word) {
    const places = run.cuts.map(({ tokens }) => tokens.indexOf(found.word));
    const rows = (part, layer) => places.map((place, text) => run.row(part, text, place, layer));
    const after = Array.from({ length: LAYERS }, (_, layer) => rows("leaving", layer));
    found.stages = [rows("entering", 0), ...after].map(alike);
  }
  return found;
}

/** The tables of it. */
export function drawn({ cosines, word, stages }, texts) {
  const cell = (value) => made("td", { style: style(ofSigned(value, 1)) }, short(value));
  const numbers = texts.map((_, place) => place + 1);
  const rows = texts.map((text, i) => [`${i + 1}. ${text}`, ...cosines[i].map((value, j) => (j < i ? cell(value) : made("td")))]);
  const tables = [tableOf("How alike the texts are to the model: cosine of their vectors, 1 the same", ["text", ...numbers], rows)];
  if (word) {
    const pairs = numbers.flatMap((one, i) => numbers.slice(0, i).map((other, j) => [`${other} and ${one}`, i, j]));
    const lines = pairs.map(([name, i, j]) => [name, ...stages.map((stage) => cell(stage[i][j]))]);
    const names = ["texts", "enters", ...Array.from({ length: LAYERS }, (_, layer) => `layer ${layer}`)];
    tables.push(tableOf(`How alike “${word}” is in two texts, as it enters and after each layer`, names, lines));
  }
  return tables;
}

function tableOf(caption, names, rows) {
  const head = made("tr", {}, ...names.map((name) => made("th", { scope: "col" }, name)));
  const lines = rows.map(([name, ...cells]) => made("tr", {}, made("th", { scope: "row" }, name), ...cells));
  const table = made("table", {}, made("caption", {}, caption), made("thead", {}, head), made("tbody", {}, ...lines));
  return made("div", { class: "live-box", tabindex: 0, role: "region", "aria-label": caption }, table);
}
