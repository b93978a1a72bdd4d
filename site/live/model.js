// The model as the page sees it: loaded once, in a worker; then texts in, runs out.

import { Run } from "./run.js";

/** Whether an earlier visit has kept all files. about: {files: name → bytes, version} */
export async function isKept({ files, version }) {
  const cache = await globalThis.caches?.open(version).catch(() => null);
  return (await cache?.keys())?.length === Object.keys(files).length;
}

/**
 * Load runtime, tokenizer and weights; progress(share) is told how much is there. What comes back runs one to
 * six texts as one batch, and is told what is taken away: mask and positions by `false`, heads as
 * [layer, head], layers by their numbers.
 */
export async function load({ files, version }, progress) {
  if (typeof WebAssembly !== "object") {
    throw new Error("This browser does not run WebAssembly, which the model needs.");
  }
  const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
  try {
    await ask(worker, "load", { files, version }, progress);
  } catch (error) {
    worker.terminate(); // the next try begins with a new one
    throw error;
  }
  for (const name of (await globalThis.caches?.keys().catch(() => [])) ?? []) {
    if (name.startsWith("encoder-") && name !== version) caches.delete(name);
  }
  return async (texts, taken) => {
    const wanted = { texts, mask: true, positions: true, heads: [], layers: [], ...taken };
    return new Run({ ...(await ask(worker, "run", wanted)), mask: wanted.mask, off: wanted.heads });
  };
}

/** Ask the worker for something, over a line of its own. */
function ask(worker, does, wanted, progress) {
  return new Promise((done, failed) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = ({ data: { share, error, result } }) => {
      if (share !== undefined) return progress?.(share);
      if (error) failed(new Error(error));
      else done(result);
      port1.close();
    };
    worker.onerror = ({ message }) => failed(new Error(message || "worker.js could not be loaded."));
    worker.postMessage({ does, wanted }, [port2]);
  });
}
