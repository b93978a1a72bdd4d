// What a head looks at. The same four roles, and the same scores, as in lesson 09.

import { made, short } from "./heatmap.js";

export const ROLES = ["previous", "next", "same word", "[CLS] or [SEP]"];
const WORDS = {
  previous: "often the previous token",
  next: "often the next token",
  "same word": "often the same word",
  "[CLS] or [SEP]": "often rests on [CLS] and [SEP]",
};
// A head is named after the role to which it gives this much of its weight, in the mean of lesson 09's sentences.
const ENOUGH = { previous: 0.3, next: 0.3, "same word": 0.3, "[CLS] or [SEP]": 0.5 };

/** The name of a head. scores: role → (layers, heads) */
export function nameOf(scores, layer, head) {
  const fitting = ROLES.filter((role) => scores[role][layer][head] >= ENOUGH[role]);
  const [role] = fitting.sort((one, other) => ROLES.indexOf(one) - ROLES.indexOf(other));
  return role ? WORDS[role] : "no named role";
}

/** Is key j one that query i ought to look at? [CLS] and [SEP] do not ask. */
const WANTED = {
  previous: (tokens, i, j) => j === i - 1,
  next: (tokens, i, j) => j === i + 1,
  "same word": (tokens, i, j) => i !== j && tokens[i] === tokens[j],
  "[CLS] or [SEP]": (tokens, i, j) => j === 0 || j === tokens.length - 1,
};

/** How much of its weight a head puts on the wanted keys, in the mean of the words that have one; null if none has. */
export function score(rows, tokens, role) {
  const sums = [];
  for (let i = 1; i < tokens.length - 1; i++) {
    const wanted = tokens.map((_, j) => j).filter((j) => WANTED[role](tokens, i, j));
    if (wanted.length) sums.push(wanted.reduce((sum, j) => sum + rows[i][j], 0));
  }
  return sums.length ? sums.reduce((sum, each) => sum + each, 0) / sums.length : null;
}

/** A role's score of one head in one text of a run. */
export function scoreIn(run, layer, text, head, role) {
  return score(run.map(text, layer, head), run.cuts[text].tokens, role);
}

/**
 * The rows of a table: how a head scores in lesson 09's ten sentences, in the texts, and with nothing taken away.
 * shown: {result, trained}
 */
export function roleRows(scores, { result, trained }, layer, head) {
  const inText = (run, place) => (role) => scoreIn(run, layer, place, head, role);
  const columns = { "ten sentences": (role) => scores[role][layer][head] };
  (result.cuts.length > 1 ? ["first text", "second text"] : ["this text"]).forEach((name, place) => {
    columns[name] = inText(result, place);
    if (result !== trained) columns[`${name}, as trained`] = inText(trained, place);
  });
  const number = (value) => (value === null ? "–" : short(value));
  const top = ["role", ...Object.keys(columns)].map((name) => made("th", { scope: "col" }, name));
  const body = ROLES.map((role) => [
    made("th", { scope: "row" }, role),
    ...Object.values(columns).map((of) => made("td", {}, number(of(role)))),
  ]);
  return [top, ...body].map((cells) => made("tr", {}, ...cells));
}
