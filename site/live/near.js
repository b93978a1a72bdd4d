// For the bug desk: which entries of the field guide mean what somebody says, by the course's own encoder.

import { load } from "./model.js";
import { WIDTH, cosine, range } from "./run.js";

const MOST = 20;
const fetched = (name) => fetch(new URL(name, import.meta.url));
const about = () => fetched("about.json").then((answer) => answer.json());
let ready;

/** How much the model has to load. */
export const megabytes = async () => (await about()).whole;

/** The entries nearest in meaning, best first: [{index, cosine}, …] */
export async function rankByMeaning(text) {
  ready ??= begun().catch((error) => {
    ready = undefined; // the next one tries again
    throw error;
  });
  const { run, rows } = await ready, vector = (await run([text.slice(0, 800)])).vector(0);
  const near = rows.map((row, index) => ({ index, cosine: cosine(Float32Array.from(row), vector) }));
  return near.sort((one, other) => other.cosine - one.cosine).slice(0, MOST);
}

async function begun() {
  // Of each entry, as it is in the guide's list.
  const all = new Int8Array(await (await fetched("../field_guide.i8")).arrayBuffer());
  const rows = range(all.length / WIDTH).map((row) => all.subarray(row * WIDTH, (row + 1) * WIDTH));
  return { run: await load(await about()), rows };
}
