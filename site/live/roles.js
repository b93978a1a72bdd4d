// What a head attends to: the same four roles and the same scores as in lesson 09.

import { cell, short, tableOf } from "./dom.js";
import { range, sum } from "./run.js";

const ends = (tokens) => [0, tokens.length - 1];
/**
 * Of each role: how a head is named after it, from how much of the weight on, in the mean of lesson 09's
 * sentences, and whether key j is one that query i should attend to. [CLS] and [SEP] don't count as queries.
 */
const ROLES = {
  previous: ["previous-token head", 0.3, (tokens, i, j) => j === i - 1],
  next: ["next-token head", 0.3, (tokens, i, j) => j === i + 1],
  "same word": ["same-word head", 0.3, (tokens, i, j) => i !== j && tokens[i] === tokens[j]],
  "[CLS] or [SEP]": ["attends to [CLS] and [SEP]", 0.5, (tokens, i, j) => ends(tokens).includes(j)],
};
const roles = Object.keys(ROLES);

/** The name of a head, after the first role that fits. scores: role → (layers, heads) */
export function nameOf(scores, layer, head) {
  const fitting = roles.find((role) => scores[role][layer][head] >= ROLES[role][1]);
  return fitting ? ROLES[fitting][0] : "no clear role";
}

/** How much weight a head puts on the wanted keys, in the mean of the words that have one; or null. */
export function score(rows, tokens, role) {
  const places = range(tokens.length);
  const wanted = places.slice(1, -1).map((i) => [i, places.filter((j) => ROLES[role][2](tokens, i, j))]);
  const sums = wanted.filter(([, keys]) => keys.length).map(([i, keys]) => sum(keys.map((j) => rows[i][j])));
  return sums.length ? sum(sums) / sums.length : null;
}

/** A table: a head's scores in lesson 09's ten sentences, in the texts, and with nothing taken away. */
export function roleTable(scores, { result, trained }, layer, head) {
  const columns = { "ten sentences": (role) => scores[role][layer][head] };
  const inText = (run, text) => (role) => score(run.map(text, layer, head), run.cuts[text].tokens, role);
  (result.cuts.length > 1 ? ["first text", "second text"] : ["this text"]).forEach((name, place) => {
    columns[name] = inText(result, place);
    if (result !== trained) columns[`${name}, as trained`] = inText(trained, place);
  });
  const number = (value) => cell(value === null ? "–" : short(value));
  const rows = roles.map((role) => [role, ...Object.values(columns).map((of) => number(of(role)))]);
  const names = ["role", ...Object.keys(columns)];
  return tableOf("How much of a word’s attention in this head goes to each role, on average", names, rows);
}
