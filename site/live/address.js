// The state of the page as the part of the address after #, so that a view can be shared.

/** {texts, layer, head, token, step, positions, mask}; of the numbers those that can be shown. */
export function read(hash, layers, heads, steps) {
  const wanted = new URLSearchParams(hash.slice(1));
  const numbers = { token: Infinity, step: steps - 1, layer: layers, head: heads }; // how many there are
  const [layer, head] = (wanted.get("head") ?? "").split(".");
  const texts = { token: wanted.get("token"), step: wanted.get("step"), layer, head };
  const isThere = ([name, count]) => /^\d+$/.test(texts[name] ?? "") && Number(texts[name]) < count;
  // The start has no number in an address, and step 1 has 0.
  const number = (name) => Number(texts[name]) + (name === "step" ? 1 : 0);
  const found = Object.entries(numbers).filter(isThere).map(([name]) => [name, number(name)]);
  return {
    texts: [wanted.get("text"), wanted.get("with")].filter((text) => text !== null),
    ...Object.fromEntries(found),
    positions: wanted.get("positions") !== "off",
    mask: wanted.get("mask") !== "off",
  };
}

export function write({ texts, layer, head, token, step, positions, mask }) {
  const state = new URLSearchParams({ text: texts[0], head: `${layer}.${head}`, token });
  if (step) state.set("step", step - 1);
  if (texts.length > 1) state.set("with", texts[1]);
  if (!positions) state.set("positions", "off");
  if (!mask) state.set("mask", "off");
  return `#${state}`;
}
