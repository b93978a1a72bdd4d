// The walk through one layer: what is computed at each step, from what, by which line of the course's code.
// Nothing here draws: the page draws these numbers, and a test compares them with PyTorch's.

import { short } from "./dom.js";
import { HEAD, HEADS, LAYERS, add, cosine, range, sum } from "./run.js";

const VECTORS = "(batch, position, d_model)", PAIRS = "(batch, heads, query_pos, key_pos)"; // shapes

// What a step shows: a strip of features, cells with their numbers, or bars: a line for each name.
const item = (form) => (label, values, more) => ({ form, label, values, ...more });
const [strip, cells, bars] = ["strip", "cells", "bars"].map(item);

/** The chosen token's attention weights, or weight × length of the value; both are drawn as lines. */
function shares(view) {
  const { names, weights } = view, flow = true;
  if (view.arrives) return bars("weight × length of the value", view.contributions(), { names, flow });
  return bars("weight", weights, { names, flow, ask: (key) => ({ kind: "weight", key }) });
}

/** Two vectors added, and the sum normed: `parts` name the two and the result, `words` the two. */
function added(view, parts, words) {
  const [x, brought, result] = parts.map((part) => view.row(part)), total = add(x, brought);
  const both = [strip(words[0], x), strip(words[1], brought, { op: "+" })];
  return [...both, strip("sum", total, { op: "=" }), strip("normalised", result, { op: "→" })];
}

/**
 * Each step: its name, the exercise that writes it, its shape, its line of code (by function and beginning: the
 * build looks it up), a sentence, what is shown. The start, which shows the answer first, has only the last two.
 * shares: does it show attention weights? part: what can be switched off there
 */
export const STEPS = [
  {
    name: "Start",
    says: ({ layer, head, word, keyWord, weights, key }) => `You see attention head ${head} of layer ${layer} at ` +
      `work: the thicker a line, the more ${word} attends to that token. ${keyWord} gets ${short(weights[key])} ` +
      `of its attention. How is that computed, and what is it good for? Press “Next” to follow ${word} through ` +
      "the encoder, or click another word above.",
    make: (view) => [shares(view)],
  },
  {
    name: "Embedding", exercise: "08.1", code: "Encoder.embed: x = self.embedding(", shape: VECTORS,
    says: ({ run, text, token, word }) => `${word} is token ${run.cuts[text].ids[token]} of a ` +
      "vocabulary of 30,522. Its row in the embedding table has 384 learned features. It’s the same row in " +
      "every sentence. Pick another token above to see its row.",
    make: (view) => [strip("row of the embedding table", view.row("words"))],
  },
  {
    name: "+ position", exercise: "01.3", code: "LearnedEncoding.forward: return", shape: VECTORS,
    says: ({ word }) => "Attention by itself can’t see the order of the words. So each position has its own " +
      `learned vector, which is added to the token there, here ${word}. Switch positions off, and every token ` +
      "gets the same position vector.",
    part: "positions",
    make(view) {
      const word = view.row("words"), placed = view.row("placed");
      const position = placed.map((number, place) => number - word[place]);
      const added = strip(`position ${view.token}`, position, { op: "+" });
      return [strip("token embedding", word), added, strip("sum", placed, { op: "=" })];
    },
  },
  {
    name: "Layer norm", exercise: "07.1", code: "Encoder.embed: return", shape: VECTORS,
    says: () => "Layer norm brings every token to a common scale, which keeps training stable: subtract the " +
      "mean of the features, divide by their standard deviation, then apply a learned scale and shift to " +
      "each. Compare the two strips: the first is paler, because its numbers are smaller.",
    make(view) {
      const normed = strip("normalised: the input of layer 0", view.row("normed"), { op: "→" });
      return [strip("sum", view.row("placed")), normed];
    },
  },
  {
    name: "Query · key", exercise: "03.4", shape: "(batch, heads, position, d_head)",
    code: "MultiHeadAttention.forward: queries =",
    says: ({ word, keyWord }) => `How well does the query of ${word} match the key of ${keyWord}? One learned ` +
      `matrix turns ${word} into a query, another turns ${keyWord} into a key. The dot product of the two is ` +
      "the answer: multiply feature by feature, and add up. Press a product to see its factors.",
    make(view) {
      const { layer, key } = view, products = view.products(key), total = short(sum(products));
      const score = `their sum, ${total}, divided by √${HEAD} is ${short(view.scores()[key])}, the scaled score`;
      const ask = (feature) => ({ kind: "product", key, feature });
      return [
        strip(`input of layer ${layer}${layer ? `, the output of layer ${layer - 1}` : ""}`, view.row("entering")),
        cells("query", view.ofHead("queries"), { op: "→" }),
        cells("key", view.ofHead("keys", key), { op: "·" }),
        cells(`products: ${score}`, products, { op: "=", ask }),
      ];
    },
  },
  {
    name: "Scores", exercise: "03.1", shape: PAIRS,
    code: "attention_weights: scores = (query",
    says: ({ word }) => `The query of ${word} is compared with the key of every token, its own included. ` +
      "Dividing by √32 keeps the scores from growing with the width of the head. (A masked key gets −∞.) " +
      "Press a score to see its 32 products, or a token to compare it in step 4.",
    make: (view) => [
      bars("scaled score", view.scores(), { names: view.names, ask: (key) => ({ kind: "score", key }) }),
    ],
  },
  {
    name: "Softmax", exercise: "03.3", shape: PAIRS, shares: true,
    code: "attention_weights: return scores.softmax(dim=-1).m",
    says: ({ word, keyWord, weights, key }) => "Softmax turns the scores into attention weights, which add up " +
      `to 1: e to each score, divided by the sum. ${word} attends to ${keyWord} with ${short(weights[key])}. ` +
      "A large weight on a short value changes little: tick the box to see.",
    make: (view) => [shares(view)],
  },
  {
    name: "Weighted sum", exercise: "03.2", shape: "(batch, heads, query_pos, d_head)", shares: true,
    code: "scaled_dot_product_attention.scaled_dot_product_attention: return F.dropout(",
    says: (view) => "Each token’s value, 32 features, is multiplied by its attention weight. The sum is the " +
      `output of head ${view.head} for ${view.word}: this is how information moves between tokens.` +
      (view.isOff() ? "" : " Press a feature to see each token’s part."),
    make(view) {
      const parts = { ...shares(view), stripes: view.weighted() };
      if (view.isOff()) return [parts, cells("this head is switched off: its output is 0", view.mixed())];
      const ask = (feature) => ({ kind: "mixed", feature });
      return [parts, cells("sum of weight × value", view.mixed(), { op: "=", ask })];
    },
  },
  {
    name: "Concat", exercise: "05.4", shape: "(batch, query_pos, d_model)",
    code: "MultiHeadAttention.forward: return",
    says: ({ head }) => `The outputs of the layer’s 12 heads are concatenated; head ${head} is framed. Without ` +
      "mixing, each head could change only its own 32 features, so one more learned matrix, W_O, mixes them. " +
      "Switch this head off to see the output of attention without it.",
    part: "head",
    make(view) {
      const joined = Float32Array.from(range(HEADS).flatMap((head) => [...view.mixed(head)]));
      const framed = [view.head * HEAD, (view.head + 1) * HEAD];
      const brought = strip("output of attention", view.row("attended"), { op: "→" });
      return [strip("12 heads, concatenated", joined, { framed }), brought];
    },
  },
  {
    name: "Add, norm", exercise: "07.3", shape: VECTORS,
    code: "EncoderLayer.forward: x = self.attention_norm(",
    says: ({ word }) => `The output of attention is added to the vector of ${word}. This residual connection lets ` +
      "the layer change a token without replacing it. Then layer norm follows, as in step 3. Which of the " +
      "two vectors is larger?",
    make: (view) => added(view, ["entering", "attended", "middle"], ["input of the layer", "attention"]),
  },
  {
    name: "Feed-forward", exercise: "06.2", shape: VECTORS,
    code: "FeedForward.forward: return",
    says: ({ word }) => `The feed-forward network works on ${word} alone. Each of its 1,536 neurons responds to ` +
      "a pattern of features and adds a vector of its own. You see the 8 strongest neurons, and the summed " +
      "output of all 1,536. Are the same neurons strongest for another token?",
    make(view) {
      const found = view.run.neurons(view.text, view.token, view.layer);
      const names = found.map(([number]) => `neuron ${number}`), values = found.map(([, value]) => value);
      const strongest = bars("strongest neurons", values, { names });
      return [strongest, strip("output of the feed-forward", view.row("fed"), { op: "→" })];
    },
  },
  {
    name: "Add, norm", exercise: "07.3", shape: VECTORS,
    code: "EncoderLayer.forward: x = self.feed_forward_norm(",
    says: ({ word, layer, run }) => `Added and normalised again: this is the output of layer ${layer} for ${word}, a ` +
      "contextual embedding, which depends on the whole sentence. " + (layer < LAYERS - 1
        ? `It’s the input of layer ${layer + 1}: ${run.only === null ? "" : "load the model, then "}move the slider, ` +
          "and go back to step 4."
        : "No layer comes after this one."),
    make: (view) => added(view, ["middle", "fed", "leaving"], ["after attention", "feed-forward"]),
  },
  {
    name: "Pooling", exercise: "09.2", code: "mean_pool: return hidden.mean(", shape: "(batch, d_model)",
    says: () => "Every layer repeats steps 4 to 11 with its own weights. The mean of all tokens after the last one, " +
      "layer 5, is one vector for the text: its sentence embedding. A single feature rarely means anything by " +
      "itself. What counts is the direction of the vector, and the last step compares directions.",
    make: ({ run }) => run.cuts.map((_, text) => strip(`sentence embedding ${text + 1}`, run.vector(text))),
  },
  {
    name: "Compare", exercise: "09.3", shape: "(texts, d_model)",
    code: "pretrained_encoder.sentence_embeddings: return F.normalize(",
    says({ run }) {
      const rule = "This is what the encoder is good for: vectors that can be compared by meaning. Their cosine " +
        "similarity is 1 if they have the same direction.";
      if (run.cuts.length < 2) return `${rule} It takes several sentences to see that, so here are three others.`;
      return `${rule} For your two sentences it’s ${short(cosine(run.vector(0), run.vector(1)))}.`;
    },
    make: () => [],
  },
];
