// What an attention map shows, in words.

import { short } from "./dom.js";
import { score } from "./roles.js";
import { cosine, range, sum } from "./run.js";

const SEEN = 0.1; // a weight that is visible in a map

/** A description of one head. shown: {result, trained, taken} */
export function told({ result, trained, taken }, layer, head) {
  const looks = strongest(result.map(0, layer, head), result.cuts[0].tokens);
  const onPadding = taken.mask ? "" : padding(result, layer, head);
  return [looks, onPadding, alike(result, trained)].filter(Boolean).join(" ");
}

/** The largest weight from one word of the first text to another: {weight, i, j}. */
function largestOf(rows, tokens) {
  const words = range(tokens.length).slice(1, -1), best = { weight: 0, i: words[0] ?? 0, j: null };
  for (const i of words) {
    for (const j of words) {
      if (i !== j && rows[i][j] > best.weight) Object.assign(best, { weight: rows[i][j], i, j });
    }
  }
  return best;
}

/** With which token and key an own sentence begins, and why. */
export function beginning(result, layer, head) {
  const { tokens } = result.cuts[0], { weight, i, j } = largestOf(result.map(0, layer, head), tokens);
  const found = `We begin with “${tokens[i]}”, which has the largest attention weight to another word in this ` +
    `head: “${tokens[j]}” gets ${short(weight)} of its attention.`;
  const none = "In this head, no word of your sentence attends much to another word: try other heads.";
  return { token: i, key: j, why: weight < SEEN ? none : found };
}

function strongest(rows, tokens) {
  const best = largestOf(rows, tokens);
  if (tokens.length < 3) return "";
  if (best.weight < SEEN) {
    const resting = short(score(rows, tokens, "[CLS] or [SEP]"));
    const rest = `on average, ${resting} of the attention goes to [CLS] and [SEP]`;
    return `No word attends to another word with a weight of ${short(SEEN)} or more; ${rest}.`;
  }
  const [from, to] = [best.i, best.j].map((place) => `“${tokens[place]}” (token ${place})`);
  return `Largest weight between two words: ${from} attends to ${to} with ${short(best.weight)}.`;
}

/** How far the sentence embeddings change without some parts, whose names are `off`. */
export function cost({ result, trained }, off) {
  const alike = result.cuts.map((_, text) => visible(cosine(result.vector(text), trained.vector(text))));
  const isOne = alike.length === 1;
  const what = isOne ? "embedding has a cosine similarity" : "embeddings have cosine similarities";
  const whole = `${alike.join(" and ")} with the whole model’s; 1 would mean no change`;
  return `Without ${off.join(" and ")}, the sentence ${what} of ${whole}.`;
}

/** A cosine similarity with as many decimals as show that it isn't 1, up to five. */
const visible = (value) => short(value, [2, 3, 4, 5].find((each) => Number(value.toFixed(each)) < 1));

/** The cosine similarity of two texts' embeddings. */
function alike(result, trained) {
  if (result.cuts.length < 2) return "";
  const [now, before] = [result, trained].map((run) => short(cosine(run.vector(0), run.vector(1))));
  const then = now === before ? "" : `; with everything switched on, ${before}`;
  return `The two sentence embeddings have the cosine similarity ${now}${then} (1: the same direction).`;
}

/** How much of the shorter text's attention goes to the padding. */
function padding(result, layer, head) {
  const lengths = result.cuts.map(({ tokens }) => tokens.length);
  const shorter = lengths.indexOf(Math.min(...lengths)), real = lengths[shorter];
  const rows = result.map(shorter, layer, head).slice(0, real);
  const mean = sum(rows.map((row) => sum(row.slice(real)))) / real;
  return `Without the mask, ${short(mean)} of the shorter text's attention in this head goes to [PAD].`;
}
