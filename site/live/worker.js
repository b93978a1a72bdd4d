// The model, away from the page's own thread: its files, kept for the next visit; then texts in, steps out.

const MOST_TOKENS = 64; // a larger map cannot be read
const SEP = 102, PAD = 0;
const LAYERS = 6, HEADS = 12;
let model;
let last; // the session runs one batch after the other

const answers = {
  /** files: name → bytes; version: the name under which they are kept */
  async load({ files, version }, progress) {
    const bytes = await all(files, version, progress);
    const [ort, { Tokenizer }] = await Promise.all(
      ["ort.wasm.bundle.min.mjs", "tokenizers.min.mjs"].map((name) => imported(bytes[name])),
    );
    ort.env.wasm.numThreads = 1; // more threads need headers that a static host does not send
    ort.env.wasm.wasmBinary = bytes["ort-wasm-simd-threaded.wasm"];
    const session = await ort.InferenceSession.create(bytes["encoder.onnx"]);
    const tokenizer = new Tokenizer(JSON.parse(new TextDecoder().decode(bytes["tokenizer.json"])), {});
    model = { ort, session, tokenizer };
  },

  /** Run some texts as one batch, padded to the longest: {cuts, length, parts, milliseconds} */
  async run({ texts, mask, positions, heads, layers }) {
    const cuts = texts.map(cut);
    const length = Math.max(...cuts.map(({ ids }) => ids.length));
    const padded = cuts.flatMap(({ ids }) => [...ids, ...Array(length - ids.length).fill(PAD)]);
    const real = cuts.flatMap(({ ids }) => Array.from({ length }, (_, place) => !mask || place < ids.length));
    const off = heads.map(([layer, head]) => layer * HEADS + head);
    const { Tensor } = model.ort;
    const begun = performance.now();
    const made = await model.session.run({
      ids: new Tensor("int64", BigInt64Array.from(padded, BigInt), [cuts.length, length]),
      may_attend: new Tensor("bool", Uint8Array.from(real), [cuts.length, 1, 1, length]),
      positions: new Tensor("float32", [positions ? 1 : 0], []),
      heads: new Tensor("float32", without(off, LAYERS * HEADS), [LAYERS, HEADS]),
      layers: new Tensor("float32", without(layers, LAYERS), [LAYERS]),
    });
    const milliseconds = performance.now() - begun;
    const parts = Object.fromEntries(Object.entries(made).map(([name, { data }]) => [name, data]));
    return { cuts, length, parts, milliseconds };
  },
};

onmessage = ({ data: { does, wanted }, ports: [port] }) => {
  const answered = async () => {
    const result = await answers[does](wanted, (share) => port.postMessage({ share }));
    port.postMessage({ result }, Object.values(result?.parts ?? {}).map(({ buffer }) => buffer));
  };
  last = Promise.resolve(last).then(answered).catch(({ message }) => port.postMessage({ error: message }));
};

/** 1 for each that stays, 0 for what is taken away. */
const without = (off, count) => Float32Array.from({ length: count }, (_, each) => !off.includes(each));

/** Cut a text into tokens: {ids, tokens, left}, `left` being how many did not fit. */
function cut(text) {
  const { ids, tokens } = model.tokenizer.encode(text);
  const left = Math.max(0, ids.length - MOST_TOKENS);
  if (!left) return { ids, tokens, left };
  const kept = MOST_TOKENS - 1; // and [SEP]
  return { ids: [...ids.slice(0, kept), SEP], tokens: [...tokens.slice(0, kept), "[SEP]"], left };
}

/** A module from its bytes. (The browser remembers for ever that an address could not be imported.) */
const imported = (bytes) => import(URL.createObjectURL(new Blob([bytes], { type: "text/javascript" })));

/** The bytes of all files: what an earlier visit has kept, the others from the site. */
async function all(files, version, progress) {
  const cache = await self.caches?.open(version).catch(() => null); // private windows have none
  const total = Object.values(files).reduce((sum, size) => sum + size);
  let loaded = 0;
  const told = (bytes) => progress((loaded += bytes) / total);
  const named = Object.entries(files).map(async ([name, size]) => {
    const address = new URL(name, import.meta.url);
    const kept = await cache?.match(address);
    const bytes = await whole(name, size, kept ?? (await fetch(address)), told);
    // Where there is no room it is loaded again next time.
    if (!kept) await cache?.put(address, new Response(bytes)).catch(() => {});
    return [name, bytes];
  });
  return Object.fromEntries(await Promise.all(named));
}

/** The bytes of an answer; they must be all there. */
async function whole(name, size, answer, told) {
  if (!answer.ok) throw new Error(`${name} is not there (${answer.status}).`);
  const bytes = new Uint8Array(size), reader = answer.body.getReader();
  let loaded = 0;
  for (let step = await reader.read(); !step.done; step = await reader.read()) {
    if (loaded + step.value.length > size) throw new Error(`${name} is longer than it should be.`);
    bytes.set(step.value, loaded);
    loaded += step.value.length;
    told(step.value.length);
  }
  if (loaded < size) throw new Error(`${name} was cut short: ${loaded} of ${size} bytes.`);
  return bytes;
}
