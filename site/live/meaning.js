// Texts compared by their embeddings, and a word that they share, layer by layer.

import { cell, short, tableOf } from "./dom.js";
import { ofSigned, style } from "./heatmap.js";
import { LAYERS, cosine, range } from "./run.js";

export const MOST_TEXTS = 6;

/** How alike the texts of a run are, and, entering and after each layer, the longest word that all share. */
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
    found.stages = [rows("entering", 0), ...range(LAYERS).map((layer) => rows("leaving", layer))].map(alike);
  }
  return found;
}

/** The tables of it. */
export function drawn({ cosines, word, stages }, texts) {
  const alike = (value) => cell(short(value), { style: style(ofSigned(value, 1)) });
  const rows = texts.map((text, i) => {
    return [`${i + 1}. ${text}`, ...cosines[i].map((value, j) => (j < i ? alike(value) : cell("")))];
  });
  const caption = "Cosine similarity of the sentence embeddings (1: the same direction)";
  const tables = [tableOf(caption, ["text", ...texts.map((_, i) => i + 1)], rows)];
  if (word) {
    const pair = (i, j) => [`${j + 1} and ${i + 1}`, ...stages.map((stage) => alike(stage[i][j]))];
    const lines = texts.flatMap((_, i) => range(i).map((j) => pair(i, j)));
    const names = ["texts", "input", ...range(LAYERS).map((layer) => `layer ${layer}`)];
    const caption = `Cosine similarity of “${word}” in two texts, at the input and after each layer`;
    tables.push(tableOf(caption, names, lines));
  }
  return tables;
}
