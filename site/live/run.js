// One run of the encoder: what its parts have made of some texts, and what follows from that.

export const LAYERS = 6, HEADS = 12, WIDTH = 384, HEAD = WIDTH / HEADS;
const NEURONS = 4 * WIDTH;
const ENTRANCE = ["words", "placed"]; // they are the same for all layers

export const dot = (a, b) => a.reduce((sum, number, place) => sum + number * b[place], 0);
export const norm = (a) => Math.sqrt(dot(a, a));
export const cosine = (a, b) => dot(a, b) / (norm(a) * norm(b));
export const add = (a, b) => Float32Array.from(a, (number, place) => number + b[place]);

export class Run {
  /**
   * cuts: [{ids, tokens, left}]; parts: name → numbers, (layer, text, token, feature); mask: is padding hidden?
   * off: heads that are taken away, [[layer, head], …]
   * Of a stored run only one layer's parts are there, of the first text, and of each token the strongest neurons;
   * and the weights of all, (layer, text, head, query, key), and each text's vector.
   */
  constructor({ cuts, length, parts, mask = true, off = [], milliseconds, only = null, maps = null, strongest = null, ends = null }) {
    Object.assign(this, { cuts, length, parts, mask, off, milliseconds, only, maps, strongest, ends });
    this.made = new Map(); // weights that have been computed
  }

  /** Whether the steps of a layer are there. */
  holds(layer, text = 0) {
    return this.only === null || (this.only === layer && !text);
  }

  /** What a part has made of a token: its features. */
  row(part, text, token, layer = 0) {
    const width = part === "neurons" ? NEURONS : WIDTH;
    const before = ENTRANCE.includes(part) || this.only !== null ? 0 : layer;
    const start = ((before * this.cuts.length + text) * this.length + token) * width;
    return this.parts[part].subarray(start, start + width);
  }

  /** The features of one head: of a query, a key or a value. */
  headRow(part, text, token, layer, head) {
    return this.row(part, text, token, layer).subarray(head * HEAD, (head + 1) * HEAD);
  }

  /** Whether a key is padding behind the mask. */
  isHidden(text, key) {
    return this.mask && key >= this.cuts[text].ids.length;
  }

  /** A query and a key, feature by feature: their products add up to the score before it is scaled. */
  products(text, token, key, layer, head) {
    const k = this.headRow("keys", text, key, layer, head);
    return this.headRow("queries", text, token, layer, head).map((q, feature) => q * k[feature]);
  }

  /** The scaled scores of a query, one for each key; −∞ behind the mask. */
  scores(text, token, layer, head) {
    const query = this.headRow("queries", text, token, layer, head);
    return Float32Array.from({ length: this.length }, (_, key) =>
      this.isHidden(text, key) ? -Infinity : dot(query, this.headRow("keys", text, key, layer, head)) / Math.sqrt(HEAD),
    );
  }

  /** The softmax of the scores. */
  weights(text, token, layer, head) {
    return this.map(text, layer, head)[token];
  }

  /** The map of a head on a text: a row of weights for each query. */
  map(text, layer, head) {
    const name = [text, layer, head].join();
    if (!this.made.has(name)) {
      const row = (_, token) =>
        this.holds(layer, text) ? softmax(this.scores(text, token, layer, head)) : this.stored(text, token, layer, head);
      this.made.set(name, Array.from({ length: this.length }, row));
    }
    return this.made.get(name);
  }

  stored(text, token, layer, head) {
    const start = (((layer * this.cuts.length + text) * HEADS + head) * this.length + token) * this.length;
    return this.maps.subarray(start, start + this.length);
  }

  /** What a head hands over: the values, mixed by the weights; nothing if it is taken away. */
  mixed(text, token, layer, head) {
    const weights = this.weights(text, token, layer, head), sum = new Float32Array(HEAD);
    if (this.off.some(([l, h]) => l === layer && h === head)) return sum;
    weights.forEach((weight, key) => {
      this.headRow("values", text, key, layer, head).forEach((value, place) => (sum[place] += weight * value));
    });
    return sum;
  }

  /** The strongest neurons of a token, [[number, value], …]; the values may be of either sign. */
  neurons(text, token, layer, most = 8) {
    if (this.strongest) return this.strongest[0][token].map((number, place) => [number, this.strongest[1][token][place]]);
    const all = Array.from(this.row("neurons", text, token, layer), (value, number) => [number, value]);
    return all.sort((one, other) => other[1] - one[1]).slice(0, most);
  }

  /** The mean of a text's real tokens after the last layer: what the model was trained to compare. */
  vector(text) {
    if (this.ends) return this.ends.subarray(text * WIDTH, (text + 1) * WIDTH);
    const { length } = this.cuts[text].ids;
    const rows = Array.from({ length }, (_, token) => this.row("leaving", text, token, LAYERS - 1));
    return rows.reduce(add).map((number) => number / length);
  }
}

export function softmax(scores) {
  const largest = Math.max(...scores);
  const grown = scores.map((score) => Math.exp(score - largest));
  const sum = grown.reduce((total, each) => total + each);
  return grown.map((each) => each / sum);
}

/** A stored run, unpacked. */
export function stored({ cuts, length, maps, ends, mask = true, layer = -1, steps = {}, neurons = null }) {
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const unpacked = ([units, text]) =>
    Float32Array.from(new Int16Array(bytes(text).buffer), (whole, place) => whole * units[Math.floor(place / WIDTH)]);
  const parts = Object.fromEntries(Object.entries(steps).map(([name, step]) => [name, unpacked(step)]));
  const weights = Float32Array.from(bytes(maps), (whole) => whole / 255);
  return new Run({ cuts, length, parts, mask, only: layer, maps: weights, strongest: neurons, ends: unpacked(ends) });
}
