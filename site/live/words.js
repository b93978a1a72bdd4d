// What is seen in a map, in words.

import { short } from "./dom.js";
import { score } from "./roles.js";
import { cosine, range, sum } from "./run.js";

const SEEN = 0.1; // a weight that is no darkness in a map

/** All there is to say of one head. shown: {result, trained, taken} */
export function told({ result, trained, taken }, layer, head) {
  const looks = strongest(result.map(0, layer, head), result.cuts[0].tokens);
  const onPadding = taken.mask ? "" : padding(result, layer, head);
  return [looks, onPadding, costs(result, trained), alike(result, trained)].filter(Boolean).join(" ");
}

/** The strongest look from one word of the first text to another. */
function strongest(rows, tokens) {
  const words = range(tokens.length).slice(1, -1), best = { weight: 0 };
  if (!words.length) return "";
  for (const i of words) {
    for (const j of words) {
      if (i !== j && rows[i][j] > best.weight) Object.assign(best, { weight: rows[i][j], i, j });
    }
  }
  if (best.weight < SEEN) {
    const resting = short(score(rows, tokens, "[CLS] or [SEP]"));
    const rest = `[CLS] and [SEP] get ${resting} in the mean`;
    return `No word gives ${short(SEEN)} of its weight to another one; ${rest}.`;
  }
  const [from, to] = [best.i, best.j].map((place) => `“${tokens[place]}”, token ${place},`);
  return `Strongest between two words: ${from} looks at ${to} with ${short(best.weight)}.`;
}

/** What the whole model loses by what is taken away. */
function costs(result, trained) {
  if (result === trained) return "";
  const alike = result.cuts.map((_, text) => short(cosine(result.vector(text), trained.vector(text))));
  const cosines = `the vectors that come out have the cosine ${alike.join(" and ")}`;
  return `It costs: ${cosines} with those of the whole model (1: nothing is lost).`;
}

/** How alike the model finds two texts. */
function alike(result, trained) {
  if (result.cuts.length < 2) return "";
  const [now, before] = [result, trained].map((run) => short(cosine(run.vector(0), run.vector(1))));
  const then = now === before ? "" : `; with nothing taken away, ${before}`;
  return `The vectors of the two texts have the cosine ${now}${then} (1: the same to the model).`;
}

/** How much weight of the shorter text falls on the padding. */
function padding(result, layer, head) {
  const lengths = result.cuts.map(({ tokens }) => tokens.length);
  const shorter = lengths.indexOf(Math.min(...lengths)), real = lengths[shorter];
  const rows = result.map(shorter, layer, head).slice(0, real);
  const mean = sum(rows.map((row) => sum(row.slice(real)))) / real;
  return `Without the mask the shorter text gives ${short(mean)} of this head's weight to [PAD].`;
}
