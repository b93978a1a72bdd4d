// What is seen in a map, in words.

import { short } from "./heatmap.js";
import { ROLES, score, scoreIn } from "./roles.js";
import { cosine } from "./run.js";

const SEEN = 0.1; // a weight that is no darkness in a map

/** All there is to say of one head. shown: {result, trained, taken} */
export function told(shown, layer, head) {
  const { result, trained, taken } = shown;
  const onPadding = taken.mask ? "" : padding(result, layer, head);
  return [looks(shown, layer, head), onPadding, costs(result, trained), alike(result, trained)].filter(Boolean).join(" ");
}

/** Where the words of the first text look, or what became of that without positions. */
function looks({ result, trained, taken }, layer, head) {
  const { tokens } = result.cuts[0];
  if (tokens.length < 3) return ""; // no words between [CLS] and [SEP]
  if (result === trained) return strongest(result.map(0, layer, head), tokens);
  return taken.positions ? "" : `The positions are taken away. ${changedMost(result, trained, layer, head)}`;
}

/** The role whose score in the first text is moved most. */
function changedMost(result, trained, layer, head) {
  const moves = ROLES.map((role) => {
    const [now, before] = [result, trained].map((run) => scoreIn(run, layer, 0, head, role));
    return { role, now, before, size: Math.abs(now - before) };
  });
  const { role, now, before } = moves.reduce((most, each) => (each.size > most.size ? each : most));
  return `To the role “${role}” the head gives ${short(now)} of its weight; with nothing taken away, ${short(before)}.`;
}

/** The strongest look from one word to another. */
function strongest(rows, tokens) {
  let best = { weight: 0 };
  for (let i = 1; i < tokens.length - 1; i++) {
    for (let j = 1; j < tokens.length - 1; j++) {
      if (i !== j && rows[i][j] > best.weight) best = { weight: rows[i][j], i, j };
    }
  }
  if (best.weight < SEEN) {
    const resting = short(score(rows, tokens, "[CLS] or [SEP]"));
    return `No word gives ${short(SEEN)} of its weight to another one; [CLS] and [SEP] get ${resting} in the mean.`;
  }
  const [from, to] = [best.i, best.j].map((place) => `“${tokens[place]}”, token ${place},`);
  return `Strongest between two words: ${from} looks at ${to} with ${short(best.weight)}.`;
}

/** What the whole model loses by what is taken away. */
function costs(result, trained) {
  if (result === trained) return "";
  const alike = result.cuts.map((_, text) => short(cosine(result.vector(text), trained.vector(text)))).join(" and ");
  return `It costs: the vectors that come out have the cosine ${alike} with those of the whole model (1: nothing is lost).`;
}

/** How alike the model finds two texts. */
function alike(result, trained) {
  if (result.cuts.length < 2) return "";
  const [now, before] = [result, trained].map((run) => short(cosine(run.vector(0), run.vector(1))));
  const then = now === before ? "" : `; with nothing taken away, ${before}`;
  return `The whole model: the vectors of the two texts have the cosine ${now}${then} (1: the same to the model).`;
}

/** How much weight of the shorter text falls on the padding. */
function padding(result, layer, head) {
  const lengths = result.cuts.map(({ tokens }) => tokens.length);
  const shorter = lengths.indexOf(Math.min(...lengths)), real = lengths[shorter];
  const rows = result.map(shorter, layer, head).slice(0, real);
  const onPads = rows.map((row) => row.slice(real).reduce((sum, weight) => sum + weight, 0));
  const mean = onPads.reduce((sum, each) => sum + each, 0) / real;
  return `Without the mask the shorter text gives ${short(mean)} of this head's weight to [PAD].`;
}
