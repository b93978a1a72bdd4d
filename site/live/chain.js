// Where a number comes from: a weight from a row of scores, a score from 32 products, a product from two.
// Each answer: title, rule, rows [name, number or {value, ask}, …] or cells, and the result that they give.

import { short } from "./dom.js";
import { HEAD, dot, sum } from "./run.js";

const answers = {
  /** The key in question comes first: it may be the fortieth of the text. */
  weight(view, { key }) {
    const { names, token } = view, scores = view.scores(), most = Math.max(...scores);
    const grown = scores.map((score) => Math.exp(score - most)), all = sum(grown);
    const row = (each) => [
      names[each], { value: scores[each], ask: { kind: "score", key: each } }, grown[each], grown[each] / all,
    ];
    return {
      title: `The attention weight from “${names[token]}” to “${names[key]}”`,
      rule: `e^(score − ${short(most)}, the largest score), divided by ${short(all)}, the sum over all tokens`,
      columns: ["token", "scaled score", "e^(score − largest)", "weight"],
      rows: [row(key), ...[...names.keys()].filter((each) => each !== key).map(row)],
      result: grown[key] / all, isFirstAsked: true,
    };
  },

  score(view, { key }) {
    const products = view.products(key), total = sum(products);
    return {
      title: `The scaled score: query of “${view.names[view.token]}” · key of “${view.names[key]}”`,
      rule: `the sum of ${HEAD} products, ${short(total)}, divided by √${HEAD}`,
      cells: { values: products, ask: (feature) => ({ kind: "product", key, feature }) },
      result: total / Math.sqrt(HEAD),
    };
  },

  product(view, { key, feature }) {
    const [q, k] = [view.ofHead("queries")[feature], view.ofHead("keys", key)[feature]];
    return {
      title: `The product of feature ${feature} (of features 0 to ${HEAD - 1})`,
      rule: "feature of the query × feature of the key",
      columns: ["vector", `feature ${feature}`],
      rows: [[`query of “${view.names[view.token]}”`, q], [`key of “${view.names[key]}”`, k]],
      end: `Each is a sum of 384 products: the features of layer ${view.layer}'s input times learned weights, ` +
        "plus a learned bias.",
      result: q * k,
    };
  },

  mixed(view, { feature }) {
    const { names, weights } = view, values = names.map((_, key) => view.ofHead("values", key)[feature]);
    return {
      title: `Feature ${feature} of the head’s output for “${names[view.token]}”`,
      rule: `the sum over all tokens of weight × feature ${feature} of the value`,
      columns: ["token", "weight", "value", "product"],
      rows: names.map((name, key) => [
        name, { value: weights[key], ask: { kind: "weight", key } }, values[key], weights[key] * values[key],
      ]),
      result: dot(weights, values),
    };
  },
};

export const answer = (view, question) => answers[question.kind](view, question);
