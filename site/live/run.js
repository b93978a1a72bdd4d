// One run of the encoder: what its parts have made of some texts, and what follows from that.

export const LAYERS = 6, HEADS = 12, WIDTH = 384, HEAD = WIDTH / HEADS;
const NEURONS = 4 * WIDTH;
const ENTRANCE = ["words", "placed", "normed"]; // they are the same for all layers

export const range = (count) => Array.from({ length: count }, (_, number) => number);
export const sum = (numbers) => numbers.reduce((total, each) => total + each, 0);
export const dot = (a, b) => a.reduce((total, number, place) => total + number * b[place], 0);
export const norm = (a) => Math.sqrt(dot(a, a));
export const cosine = (a, b) => dot(a, b) / (norm(a) * norm(b));
export const add = (a, b) => Float32Array.from(a, (number, place) => number + b[place]);
export const largest = (numbers) => numbers.indexOf(Math.max(...numbers)); // its place

export class Run {
  /**
   * cuts: [{ids, tokens, left}]; parts: name → numbers, (layer, text, token, feature); mask: is padding
   * hidden? off: heads that are taken away, [[layer, head], …]
   * Of a stored run only one layer's parts are there, of the first text, and of each token the strongest
   * neurons; and the weights of all, (layer, text, head, query, key), and each text's vector.
   */
  constructor(made) {
    Object.assign(this, { mask: true, off: [], only: null, ...made });
    this.computed = new Map(); // maps
  }

  /** The tokens of a text, its padding too. */
  names(text) {
    const { tokens } = this.cuts[text];
    return [...tokens, ...Array(this.length - tokens.length).fill("[PAD]")];
  }

  /** Whether the steps of a layer are there. */
  holds(layer, text = 0) {
    return this.only === null || (this.only === layer && !text);
  }

  /** What a part has made of a token: its features. */
  row(part, text, token, layer = 0) {
    if (part === "normed" && !this.parts.normed) return this.row("entering", text, token);
    const width = part === "neurons" ? NEURONS : WIDTH;
    const before = ENTRANCE.includes(part) || this.only !== null ? 0 : layer;
    const start = ((before * this.cuts.length + text) * this.length + token) * width;
    return this.parts[part].subarray(start, start + width);
  }

  /** The features of one head: of a query, a key or a value. */
  headRow(part, text, token, layer, head) {
    return this.row(part, text, token, layer).subarray(head * HEAD, (head + 1) * HEAD);
  }

  /** The scaled scores of a query, one for each key; −∞ where the mask hides a key. */
  scores(text, token, layer, head) {
    const query = this.headRow("queries", text, token, layer, head);
    const seen = this.mask ? this.cuts[text].ids.length : this.length;
    return Float32Array.from(range(this.length), (key) =>
      key < seen ? dot(query, this.headRow("keys", text, key, layer, head)) / Math.sqrt(HEAD) : -Infinity,
    );
  }

  /** The map of a head on a text: a row of weights for each query. */
  map(text, layer, head) {
    const name = [text, layer, head].join();
    if (!this.computed.has(name)) {
      const first = ((layer * this.cuts.length + text) * HEADS + head) * this.length;
      const rows = range(this.length).map((token) =>
        this.holds(layer, text)
          ? softmax(this.scores(text, token, layer, head))
          : this.maps.subarray((first + token) * this.length, (first + token + 1) * this.length),
      );
      this.computed.set(name, rows);
    }
    return this.computed.get(name);
  }

  /** The strongest neurons of a token, [[number, value], …]; the values may be of either sign. */
  neurons(text, token, layer, most = 8) {
    if (this.strongest) return this.strongest[token];
    const all = Array.from(this.row("neurons", text, token, layer), (value, number) => [number, value]);
    return all.sort((one, other) => other[1] - one[1]).slice(0, most);
  }

  /** The mean of a text's real tokens after the last layer: what the model was trained to compare. */
  vector(text) {
    if (this.ends) return this.ends.subarray(text * WIDTH, (text + 1) * WIDTH);
    const rows = this.cuts[text].ids.map((_, token) => this.row("leaving", text, token, LAYERS - 1));
    return rows.reduce(add).map((number) => number / rows.length);
  }
}

/** A run as one head of one layer sees one token of one text. */
export class View {
  /** key: that with the largest weight if it is null; arrives: is weight × length of the value asked for? */
  constructor({ key = null, ...wanted }) {
    Object.assign(this, wanted);
    this.names = this.run.names(this.text);
    this.weights = this.run.map(this.text, this.layer, this.head)[this.token];
    const isPicked = key !== null && key < this.names.length;
    this.key = isPicked ? key : largest(this.weights);
    [this.word, this.keyWord] = [this.told(this.token), this.told(this.key)];
  }

  /** A token in quotes, with its position if the token occurs twice. */
  told(place) {
    const { names } = this, name = names[place];
    return names.indexOf(name) === names.lastIndexOf(name) ? `“${name}”` : `“${name} (${place})”`;
  }

  row(part) {
    return this.run.row(part, this.text, this.token, this.layer);
  }

  /** The features of this head: of a token's query, key or value. */
  ofHead(part, token = this.token) {
    return this.run.headRow(part, this.text, token, this.layer, this.head);
  }

  scores() {
    return this.run.scores(this.text, this.token, this.layer, this.head);
  }

  /** Query and key, feature by feature: their products add up to the score before it is scaled. */
  products(key) {
    const k = this.ofHead("keys", key);
    return this.ofHead("queries").map((q, feature) => q * k[feature]);
  }

  /** How much of each token arrives: its weight times the length of its value. */
  contributions() {
    return this.weights.map((weight, key) => weight * norm(this.ofHead("values", key)));
  }

  /** Each token's value times its weight: added up they are what the head hands over. */
  weighted() {
    const times = (weight) => (value) => weight * value;
    return Array.from(this.weights, (weight, key) => this.ofHead("values", key).map(times(weight)));
  }

  /** Whether a head of the layer is taken away. */
  isOff(head = this.head) {
    return this.run.off.some(([l, h]) => l === this.layer && h === head);
  }

  /** What a head of the layer hands over; nothing if it is taken away. */
  mixed(head = this.head) {
    return this.isOff(head) ? new Float32Array(HEAD) : new View({ ...this, head }).weighted().reduce(add);
  }
}

function softmax(scores) {
  const most = Math.max(...scores), grown = scores.map((score) => Math.exp(score - most)), all = sum(grown);
  return grown.map((each) => each / all);
}

/** A stored run, unpacked. */
export function stored({ maps, ends, layer, steps, neurons, ...more }) {
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const unpacked = ([units, text]) => {
    const wholes = new Int16Array(bytes(text).buffer);
    return Float32Array.from(wholes, (whole, place) => whole * units[Math.floor(place / WIDTH)]);
  };
  const parts = Object.fromEntries(Object.entries(steps).map(([name, step]) => [name, unpacked(step)]));
  const weights = Float32Array.from(bytes(maps), (whole) => whole / 255);
  return new Run({ ...more, parts, only: layer, maps: weights, strongest: neurons, ends: unpacked(ends) });
}
