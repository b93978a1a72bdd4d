// The model as the page sees it: loaded once, in a worker; then texts in, runs out.

import { HEADS, LAYERS, Run } from "./run.js";

const AS_TRAINED = { mask: true, positions: true, heads: [], layers: [] };

/** Whether an earlier visit has kept all files. about: {files: name → bytes, version} */
export async function isKept({ files, version }) {
  const cache = await globalThis.caches?.open(version).catch(() => null);
  return (await cache?.keys())?.length === Object.keys(files).length;
}

/** Load runtime, tokenizer and weights. `progress(share)` is told how much is there. */
export async function load({ files, version }, progress = () => {}) {
  if (typeof WebAssembly !== "object") {
    throw new Error("This browser does not run WebAssembly, which the model needs.");
  }
  const model = new Model(progress);
  try {
    await model.ask("load", { files, version });
  } catch (error) {
    model.worker.terminate(); // the next try begins with a new one
    throw error;
  }
  for (const name of await globalThis.caches?.keys().catch(() => []) ?? []) {
    if (name.startsWith("encoder-") && name !== version) caches.delete(name);
  }
  return model;
}

class Model {
  constructor(progress) {
    this.worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
    this.waiting = new Map();
    this.worker.onmessage = ({ data: { id, result, error, progress: share } }) => {
      if (share !== undefined) return progress(share);
      const { done, failed } = this.waiting.get(id);
      this.waiting.delete(id);
      if (error) failed(new Error(error));
      else done(result);
    };
    this.worker.onerror = (event) => {
      for (const { failed } of this.waiting.values()) failed(new Error(event.message || "worker.js could not be loaded."));
    };
  }

  ask(does, wanted) {
    const id = crypto.randomUUID?.() ?? Math.random();
    return new Promise((done, failed) => {
      this.waiting.set(id, { done, failed });
      this.worker.postMessage({ id, does, wanted });
    });
  }

  /**
   * Run one to six texts as one batch. What is taken away: mask and positions by `false`, heads as [layer, head]
   * pairs, layers by their numbers.
   */
  async run(texts, taken = {}) {
    const { mask, positions, heads, layers } = { ...AS_TRAINED, ...taken };
    const stays = (list) => (fits) => (list.some(fits) ? 0 : 1);
    const numbers = (count) => Array.from({ length: count }, (_, number) => number);
    const made = await this.ask("run", {
      texts,
      mask,
      positions: positions ? 1 : 0,
      heads: numbers(LAYERS).map((l) => numbers(HEADS).map((h) => stays(heads)(([a, b]) => a === l && b === h))),
      layers: numbers(LAYERS).map((l) => stays(layers)((each) => each === l)),
    });
    return new Run({ ...made, mask, off: heads });
  }
}
