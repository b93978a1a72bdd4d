// The walk through one layer: what is computed at each step, from what, by which line of the course's code.
// Nothing here draws: the page draws these numbers, and a test compares them with PyTorch's.

import { HEAD, HEADS, LAYERS, WIDTH, add, norm } from "./run.js";

const strip = (label, values, more = {}) => ({ form: "strip", label, values, ...more });
const cells = (label, values, more = {}) => ({ form: "cells", label, values, ...more });
const bars = (label, names, values, more = {}) => ({ form: "bars", label, names, values, ...more });

/** The tokens of a text, its padding too. */
export function namesOf(run, text) {
  const { tokens } = run.cuts[text];
  return [...tokens, ...Array(run.length - tokens.length).fill("[PAD]")];
}

/** What the head looks at most, or the key that was picked. */
export function keyOf({ run, text, token, layer, head, key }) {
  if (key !== null && key < run.length) return key;
  const weights = run.weights(text, token, layer, head);
  return weights.indexOf(Math.max(...weights));
}

/** How much of each token arrives: its weight times the length of its value. */
export function contributions({ run, text, token, layer, head }) {
  return run.weights(text, token, layer, head).map(
    (weight, key) => weight * norm(run.headRow("values", text, key, layer, head)),
  );
}

const normed = ({ run, text, token }) => run.parts.normed ? run.row("normed", text, token) : run.row("entering", text, token);

/**
 * Each step: its name, the exercise in which one writes it, its line of code, its shape, a sentence, and make(view), what
 * is shown. view: {run, text, token, layer, head, key}
 */
export const STEPS = [
  {
    name: "Token", exercise: "08.1", code: "x = self.embedding(token_ids)", shape: "(batch, position, d_model)",
    says: ({ name, id }) => `“${name}” is number ${id} of 30,522 tokens. The model has learned 384 numbers for it: red above 0, blue below.`,
    make: ({ run, text, token }) => [strip("its row", run.row("words", text, token))],
  },
  {
    name: "+ position", exercise: "01.3", code: "self.positions(x)", shape: "(batch, position, d_model)",
    says: ({ name, token }) => `The 384 numbers of position ${token} are added, so that the model can tell this “${name}” from one elsewhere.`,
    make({ run, text, token }) {
      const word = run.row("words", text, token), placed = run.row("placed", text, token);
      const position = placed.map((number, place) => number - word[place]);
      return [strip("token", word), strip(`position ${token}`, position, { op: "+" }), strip("sum", placed, { op: "=" })];
    },
  },
  {
    name: "Norm", exercise: "07.1", code: "self.embedding_norm(x)", shape: "(batch, position, d_model)",
    says: () => "The numbers are brought to a common size: subtract their mean, divide by their spread, scale and shift each as learned.",
    make: (view) => [
      strip("sum", view.run.row("placed", view.text, view.token)), strip("normed: enters layer 0", normed(view), { op: "→" }),
    ],
  },
  {
    name: "Query · key", exercise: "03.7", shape: "(batch, heads, position, d_head)",
    code: "queries = self.rotary(split_heads(self.query_projection(query), self.n_heads))",
    says: ({ name, keyName }) => `“${name}” asks (query), “${keyName}” offers (key): each is made by a learned matrix. Feature times feature, added up.`,
    make(view) {
      const { run, text, token, layer, head } = view, key = keyOf(view);
      const q = run.headRow("queries", text, token, layer, head), k = run.headRow("keys", text, key, layer, head);
      const products = run.products(text, token, key, layer, head), sum = products.reduce((total, each) => total + each);
      return [
        strip(`enters layer ${layer}${layer ? ", changed by those before it" : ""}`, run.row("entering", text, token, layer)),
        cells("query", q, { op: "→" }), cells("key", k, { op: "·" }),
        cells(`products: added up ${sum.toFixed(2)}, ÷ √${HEAD} is ${(sum / Math.sqrt(HEAD)).toFixed(2)}, the score`, products, { op: "=", ask: (feature) => ({ kind: "product", token, key, feature }) }),
      ];
    },
  },
  {
    name: "Scores", exercise: "03.1", code: "scores = (query / math.sqrt(query.shape[-1])) @ key.mT",
    shape: "(batch, heads, query_pos, key_pos)",
    says: ({ name }) => `“${name}” is compared with every token; each sum of 32 products is divided by √32. (Padding would get −∞.)`,
    make: (view) => [
      bars("scaled score", namesOf(view.run, view.text), view.run.scores(view.text, view.token, view.layer, view.head), {
        ask: (key) => ({ kind: "score", token: view.token, key }),
      }),
    ],
  },
  {
    name: "Softmax", exercise: "03.3", code: "return scores.softmax(dim=-1).masked_fill(sees_nothing, 0.0)",
    shape: "(batch, heads, query_pos, key_pos)",
    says: ({ name, keyName, weight }) => `Softmax makes shares of scores: e to each score, over the sum. “${name}” gives “${keyName}” ${weight}. A weight is not yet what arrives: tick the box.`,
    make: (view) => [
      bars("weight", namesOf(view.run, view.text), view.run.weights(view.text, view.token, view.layer, view.head), {
        ask: (key) => ({ kind: "weight", token: view.token, key }), arrives: contributions(view),
      }),
    ],
  },
  {
    name: "Mix values", exercise: "03.2", code: "return F.dropout(weights, dropout) @ value, weights",
    shape: "(batch, heads, query_pos, d_head)",
    says: ({ name }) => `Each token hands over 32 numbers, its value, times its weight. Their sum is what this head brings to “${name}”.`,
    make(view) {
      const { run, text, token, layer, head } = view, weights = run.weights(text, token, layer, head);
      const most = [...weights.keys()].sort((a, b) => weights[b] - weights[a]).slice(0, 3);
      const value = (key) => run.headRow("values", text, key, layer, head).map((number) => weights[key] * number);
      const parts = most.map((key, place) =>
        strip(`${weights[key].toFixed(2)} · ${namesOf(run, text)[key]}`, value(key), { op: place ? "+" : "" }),
      );
      const ask = (feature) => ({ kind: "mixed", token, feature });
      const sum = cells(`sum over all ${run.length}`, run.mixed(text, token, layer, head), { op: "… =", ask });
      return [...parts, sum];
    },
  },
  {
    name: "Join heads", exercise: "05.5", code: "return self.output_projection(merge_heads(heads)), weights",
    shape: "(batch, query_pos, d_model)",
    says: ({ head }) => `The 12 heads side by side, head ${head} framed; one more learned matrix mixes them.`,
    make({ run, text, token, layer, head }) {
      const heads = Array.from({ length: HEADS }, (_, each) => run.mixed(text, token, layer, each));
      const joined = Float32Array.from({ length: WIDTH }, (_, place) => heads[Math.floor(place / HEAD)][place % HEAD]);
      const framed = [head * HEAD, (head + 1) * HEAD];
      return [strip("12 heads", joined, { framed }), strip("attention brings", run.row("attended", text, token, layer), { op: "→" })];
    },
  },
  {
    name: "Add, norm", exercise: "07.3", code: "x = self.attention_norm(self.residual(x, attended))",
    shape: "(batch, position, d_model)",
    says: ({ name }) => `What attention brings is added to “${name}”, so nothing is lost, and brought to a common size as in step 3.`,
    make: ({ run, text, token, layer }) => added(run, text, token, layer, ["entering", "attended", "middle"], ["enters", "attention"]),
  },
  {
    name: "Feed-forward", exercise: "06.8", code: "return self.down_projection(self.dropout(hidden))",
    shape: "(batch, position, d_model)",
    says: ({ name }) => `Now “${name}” alone: 1,536 neurons each look for a pattern in it. The strongest, and what all of them bring:`,
    make({ run, text, token, layer }) {
      const found = run.neurons(text, token, layer);
      const names = found.map(([number]) => `neuron ${number}`);
      return [
        bars("strongest neurons", names, Float32Array.from(found, ([, value]) => value)),
        strip("feed-forward brings", run.row("fed", text, token, layer), { op: "→" }),
      ];
    },
  },
  {
    name: "Add, norm", exercise: "07.3", code: "x = self.feed_forward_norm(self.residual(x, self.feed_forward(x)))",
    shape: "(batch, position, d_model)",
    says: ({ name, layer }) => `Added and normed again: “${name}” leaves layer ${layer}${layer < LAYERS - 1 ? ", and enters the next" : ""}.`,
    make: ({ run, text, token, layer }) => added(run, text, token, layer, ["middle", "fed", "leaving"], ["so far", "feed-forward"]),
  },
  {
    name: "Out", exercise: "09.1", code: "return hidden.mean(dim=1)", shape: "(batch, d_model)",
    says: () => "After layer 5 the mean of all tokens is one vector for the text. Texts that mean the same have similar ones: compare some below.",
    make: ({ run, text }) => [strip("vector of the text", Float32Array.from(run.vector(text)))],
  },
];

/** Two vectors added, and the sum normed: `parts` name the two and the result, `words` the two. */
function added(run, text, token, layer, parts, words) {
  const [x, brought, result] = parts.map((part) => run.row(part, text, token, layer));
  const sum = strip("sum", add(x, brought), { op: "=" });
  return [strip(words[0], x), strip(words[1], brought, { op: "+" }), sum, strip("normed", result, { op: "→" })];
}
