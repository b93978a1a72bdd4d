// The encoder: loaded once, with progress; then texts in, tokens and attention maps out.

const HERE = new URL(".", import.meta.url);
const MOST_TOKENS = 64; // a larger map cannot be read
const CLS = 101, SEP = 102, PAD = 0;

/** Load library, tokenizer and weights. `progress(loaded, total)` is told the bytes of the weights. */
export async function load(total, progress) {
  if (typeof WebAssembly !== "object") {
    throw new Error("This browser does not run WebAssembly, which the model needs. The example below stays.");
  }
  const [ort, { Tokenizer }, description, weights] = await Promise.all([
    import(new URL("ort.wasm.min.mjs", HERE)),
    import(new URL("tokenizers.min.mjs", HERE)),
    fetched("tokenizer.json").then((answer) => answer.json()),
    download("encoder.onnx", total, progress),
  ]);
  ort.env.wasm.numThreads = 1; // more threads need headers that a static host does not send
  ort.env.wasm.wasmPaths = HERE.href;
  const session = await ort.InferenceSession.create(weights);
  return new Model(ort, session, new Tokenizer(description, {}));
}

async function fetched(name) {
  const answer = await fetch(new URL(name, HERE));
  if (!answer.ok) throw new Error(`${name} is not there (${answer.status}).`);
  return answer;
}

/** The bytes of a file; they must be all there. */
async function download(name, total, progress) {
  const bytes = new Uint8Array(total);
  let loaded = 0;
  for await (const piece of pieces((await fetched(name)).body)) {
    if (loaded + piece.length > total) throw new Error(`${name} is longer than it should be.`);
    bytes.set(piece, loaded);
    loaded += piece.length;
    progress(loaded, total);
  }
  if (loaded < total) throw new Error(`${name} was cut short: ${loaded} of ${total} bytes.`);
  return bytes;
}

/** Not every browser can iterate over a stream. */
async function* pieces(stream) {
  const reader = stream.getReader();
  for (let step = await reader.read(); !step.done; step = await reader.read()) yield step.value;
}

class Model {
  constructor(ort, session, tokenizer) {
    Object.assign(this, { ort, session, tokenizer });
  }

  /** Cut a text into tokens: {ids, tokens, left}, `left` being how many did not fit. */
  cut(text) {
    const { ids, tokens } = this.tokenizer.encode(text);
    const left = Math.max(0, ids.length - MOST_TOKENS);
    if (!left) return { ids, tokens, left };
    const kept = MOST_TOKENS - 1; // and [SEP]
    return { ids: [...ids.slice(0, kept), SEP], tokens: [...tokens.slice(0, kept), "[SEP]"], left };
  }

  /**
   * Run one or two texts as one batch, padded to the longer.
   * Returns cuts, dims (layers, batch, heads, query_pos, key_pos), maps, and the vectors of the texts.
   */
  async run(texts, { mask = true, positions = true } = {}) {
    const cuts = texts.map((text) => this.cut(text));
    const length = Math.max(...cuts.map(({ ids }) => ids.length));
    const padded = cuts.flatMap(({ ids }) => [...ids, ...Array(length - ids.length).fill(PAD)]);
    const real = cuts.flatMap(({ ids }) => Array.from({ length }, (_, place) => !mask || place < ids.length));
    const { Tensor } = this.ort;
    const shape = [cuts.length, length];
    const begun = performance.now();
    const { hidden, maps } = await this.session.run({
      ids: new Tensor("int64", BigInt64Array.from(padded, BigInt), shape),
      may_attend: new Tensor("bool", Uint8Array.from(real), [cuts.length, 1, 1, length]),
      positions: new Tensor("float32", [positions ? 1 : 0], []),
    });
    const milliseconds = performance.now() - begun;
    const vectors = cuts.map(({ ids }, text) => meanVector(hidden, text, ids.length));
    return { cuts, dims: maps.dims, maps: maps.data, vectors, milliseconds };
  }
}

/** The mean of a text's real tokens: what the model was trained to compare. hidden: (batch, position, feature) */
function meanVector({ data, dims: [, length, width] }, text, real) {
  const mean = new Float64Array(width);
  for (let place = 0; place < real; place++) {
    for (let feature = 0; feature < width; feature++) {
      mean[feature] += data[(text * length + place) * width + feature] / real;
    }
  }
  return mean;
}

export function cosine(one, other) {
  const dot = (a, b) => a.reduce((sum, number, place) => sum + number * b[place], 0);
  return dot(one, other) / Math.sqrt(dot(one, one) * dot(other, other));
}

/** The map of one head on one text, (query_pos, key_pos), as rows. */
export function headMap({ maps, dims: [, batch, heads, length] }, layer, text, head) {
  const start = ((layer * batch + text) * heads + head) * length * length;
  return Array.from({ length }, (_, row) => maps.subarray(start + row * length, start + (row + 1) * length));
}
