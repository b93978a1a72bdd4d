// Where a number comes from: a weight from a row of scores, a score from 32 products, a product from two features.
// Each answer: a title, the rule, its rows [name, number or question, …], and the result that follows from the rows.

import { short } from "./heatmap.js";
import { HEAD, dot } from "./run.js";
import { namesOf } from "./steps.js";

const answers = {
  weight(view, { token, key }) {
    const { run, text, layer, head } = view, names = namesOf(run, text), scores = run.scores(text, token, layer, head);
    const largest = Math.max(...scores), grown = scores.map((score) => Math.exp(score - largest));
    const sum = grown.reduce((total, each) => total + each);
    return {
      title: `The weight from “${names[token]}” to “${names[key]}”`,
      rule: `e to the score (less the largest, ${short(largest)}) ÷ the sum of the row, ${short(sum)}`,
      columns: ["token", "scaled score", "e^(score − largest)", "÷ sum"],
      rows: names.map((name, each) => [name, { value: scores[each], ask: { kind: "score", token, key: each } }, grown[each], grown[each] / sum]),
      lit: key, result: grown[key] / sum,
    };
  },

  score(view, { token, key }) {
    const products = view.run.products(view.text, token, key, view.layer, view.head), sum = products.reduce((total, each) => total + each);
    const names = namesOf(view.run, view.text);
    return {
      title: `The score of the query of “${names[token]}” and the key of “${names[key]}”`,
      rule: `the sum of ${HEAD} products, ${short(sum)}, ÷ √${HEAD}`,
      cells: Array.from(products, (value, feature) => ({ value, ask: { kind: "product", token, key, feature } })),
      result: sum / Math.sqrt(HEAD),
    };
  },

  product(view, { token, key, feature }) {
    const { run, text, layer, head } = view, names = namesOf(run, text);
    const q = run.headRow("queries", text, token, layer, head)[feature], k = run.headRow("keys", text, key, layer, head)[feature];
    return {
      title: `The product of feature ${feature} (0 to ${HEAD - 1})`,
      rule: "feature of the query × feature of the key",
      columns: ["of", `feature ${feature}`],
      rows: [[`query of “${names[token]}”`, q], [`key of “${names[key]}”`, k]],
      end: `Each is a sum of 384 products: what enters layer ${layer}, times a row of learned weights, plus a learned number.`,
      result: q * k,
    };
  },

  mixed(view, { token, feature }) {
    const { run, text, layer, head } = view, names = namesOf(run, text), weights = run.weights(text, token, layer, head);
    const values = names.map((_, key) => run.headRow("values", text, key, layer, head)[feature]);
    return {
      title: `Feature ${feature} of what the head brings to “${names[token]}”`,
      rule: "the sum over all tokens: weight × feature of the value",
      columns: ["token", "weight", "value", "product"],
      rows: names.map((name, key) => [
        name, { value: weights[key], ask: { kind: "weight", token, key } }, values[key], weights[key] * values[key],
      ]),
      result: dot(weights, values),
    };
  },
};

export const answer = (view, question) => answers[question.kind](view, question);
