// The walk through one layer: what is computed at each step, from what, by which line of the course's code.
// Nothing here draws: the page draws these numbers, and a test compares them with PyTorch's.

import { short } from "./dom.js";
import { HEAD, HEADS, LAYERS, add, cosine, range, sum } from "./run.js";

const VECTORS = "(batch, position, d_model)", PAIRS = "(batch, heads, query_pos, key_pos)"; // shapes

// What a step shows: a strip of features, cells with their numbers, or bars: a line for each name.
const item = (form) => (label, values, more) => ({ form, label, values, ...more });
const [strip, cells, bars] = ["strip", "cells", "bars"].map(item);

/** How the chosen token shares out its weight, or how long each token's part is; both are drawn as lines. */
function shares(view) {
  const { names, weights } = view, flow = true;
  if (view.arrives) return bars("weight × length of the value", view.contributions(), { names, flow });
  return bars("weight", weights, { names, flow, ask: (key) => ({ kind: "weight", key }) });
}

/** Two vectors added, and the sum normed: `parts` name the two and the result, `words` the two. */
function added(view, parts, words) {
  const [x, brought, result] = parts.map((part) => view.row(part)), total = add(x, brought);
  const both = [strip(words[0], x), strip(words[1], brought, { op: "+" })];
  return [...both, strip("sum", total, { op: "=" }), strip("normed", result, { op: "→" })];
}

/**
 * Each step: its name, the exercise that writes it, its shape, its line of code (by function and beginning: the
 * build looks it up), a sentence, what is shown.
 * shares: is it about who gets how much weight?
 */
export const STEPS = [
  {
    name: "Token", exercise: "08.1", code: "Encoder.embed: x = self.embedding(", shape: VECTORS,
    says: ({ run, text, token, word }) => `${word} is number ${run.cuts[text].ids[token]} of 30,522 ` +
      "tokens. The model has learned 384 numbers for it: red above 0, blue below.",
    make: (view) => [strip("its row", view.row("words"))],
  },
  {
    name: "+ position", exercise: "01.3", code: "LearnedEncoding.forward: return", shape: VECTORS,
    says: ({ token, word }) => `The 384 numbers of position ${token} are added, so that the model can tell ` +
      `this ${word} from one elsewhere.`,
    make(view) {
      const word = view.row("words"), placed = view.row("placed");
      const position = placed.map((number, place) => number - word[place]);
      const added = strip(`position ${view.token}`, position, { op: "+" });
      return [strip("token", word), added, strip("sum", placed, { op: "=" })];
    },
  },
  {
    name: "Norm", exercise: "07.1", code: "Encoder.embed: return", shape: VECTORS,
    says: () => "The numbers are brought to a common size: subtract their mean, divide by their spread, " +
      "scale and shift each as learned.",
    make(view) {
      const normed = strip("normed: enters layer 0", view.row("normed"), { op: "→" });
      return [strip("sum", view.row("placed")), normed];
    },
  },
  {
    name: "Query · key", exercise: "03.4", shape: "(batch, heads, position, d_head)",
    code: "MultiHeadAttention.forward: queries =",
    says: ({ word, keyWord }) => `${word} asks (query), ${keyWord} offers (key): each is made by a learned ` +
      "matrix. Feature times feature, added up.",
    make(view) {
      const { layer, key } = view, products = view.products(key), total = sum(products).toFixed(2);
      const score = `added up ${total}, ÷ √${HEAD} is ${view.scores()[key].toFixed(2)}, the score`;
      const ask = (feature) => ({ kind: "product", key, feature });
      return [
        strip(`enters layer ${layer}${layer ? ", changed by those before it" : ""}`, view.row("entering")),
        cells("query", view.ofHead("queries"), { op: "→" }),
        cells("key", view.ofHead("keys", key), { op: "·" }),
        cells(`products: ${score}`, products, { op: "=", ask }),
      ];
    },
  },
  {
    name: "Scores", exercise: "03.1", shape: PAIRS,
    code: "attention_weights: scores = (query",
    says: ({ word }) => `${word} is compared with every token; each sum of 32 products is divided by √32. ` +
      "(Padding would get −∞.)",
    make: (view) => [
      bars("scaled score", view.scores(), { names: view.names, ask: (key) => ({ kind: "score", key }) }),
    ],
  },
  {
    name: "Softmax", exercise: "03.3", shape: PAIRS, shares: true,
    code: "attention_weights: return scores.softmax(dim=-1).m",
    says: ({ word, keyWord, weights, key }) => "Softmax makes shares of scores: e to each score, over the " +
      `sum. ${word} gives ${keyWord} ${short(weights[key])}. A weight is not yet what arrives: tick the box.`,
    make: (view) => [shares(view)],
  },
  {
    name: "Mix values", exercise: "03.2", shape: "(batch, heads, query_pos, d_head)", shares: true,
    code: "scaled_dot_product_attention.scaled_dot_product_attention: return F.dropout(",
    says: ({ word }) => "Each token hands over 32 numbers, its value, times its weight. Their sum is what " +
      `this head brings to ${word}.`,
    make(view) {
      const parts = { ...shares(view), stripes: view.weighted() };
      if (view.isOff()) return [parts, cells("this head is taken away: nothing arrives", view.mixed())];
      const ask = (feature) => ({ kind: "mixed", feature });
      return [parts, cells("sum of weight × value", view.mixed(), { op: "=", ask })];
    },
  },
  {
    name: "Join heads", exercise: "05.4", shape: "(batch, query_pos, d_model)",
    code: "MultiHeadAttention.forward: return",
    says: ({ head }) => `The 12 heads side by side, head ${head} framed; one more learned matrix mixes them.`,
    make(view) {
      const joined = Float32Array.from(range(HEADS).flatMap((head) => [...view.mixed(head)]));
      const framed = [view.head * HEAD, (view.head + 1) * HEAD];
      const brought = strip("attention brings", view.row("attended"), { op: "→" });
      return [strip("12 heads", joined, { framed }), brought];
    },
  },
  {
    name: "Add, norm", exercise: "07.3", shape: VECTORS,
    code: "EncoderLayer.forward: x = self.attention_norm(",
    says: ({ word }) => `What attention brings is added to ${word}, so nothing is lost, and brought to a ` +
      "common size as in step 3.",
    make: (view) => added(view, ["entering", "attended", "middle"], ["enters", "attention"]),
  },
  {
    name: "Feed-forward", exercise: "06.2", shape: VECTORS,
    code: "FeedForward.forward: return",
    says: ({ word }) => `Now ${word} alone: 1,536 neurons each look for a pattern in it. The strongest, ` +
      "and what all of them bring:",
    make(view) {
      const found = view.run.neurons(view.text, view.token, view.layer);
      const names = found.map(([number]) => `neuron ${number}`), values = found.map(([, value]) => value);
      const strongest = bars("strongest neurons", values, { names });
      return [strongest, strip("feed-forward brings", view.row("fed"), { op: "→" })];
    },
  },
  {
    name: "Add, norm", exercise: "07.3", shape: VECTORS,
    code: "EncoderLayer.forward: x = self.feed_forward_norm(",
    says: ({ word, layer }) => `Added and normed again: ${word} leaves layer ${layer}` +
      `${layer < LAYERS - 1 ? ", and enters the next" : ""}.`,
    make: (view) => added(view, ["middle", "fed", "leaving"], ["so far", "feed-forward"]),
  },
  {
    name: "Out", exercise: "09.2", code: "mean_pool: return hidden.mean(", shape: "(batch, d_model)",
    says({ run }) {
      const rule = "After layer 5 the mean of all tokens is one vector for the text.";
      if (run.cuts.length < 2) return `${rule} Texts of one meaning have similar ones: compare some below.`;
      const alike = short(cosine(run.vector(0), run.vector(1)));
      return `${rule} The two have the cosine ${alike} (1: the same to the model).`;
    },
    make: ({ run }) => run.cuts.map((_, text) => strip(`vector of text ${text + 1}`, run.vector(text))),
  },
];
