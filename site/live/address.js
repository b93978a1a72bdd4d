// What is asked for, as the part of the address behind #, so that a view can be handed on.

/** {texts, layer, head, positions, mask} of an address; layer and head only if there is such a head. */
export function read(hash, layers, heads) {
  const wanted = new URLSearchParams(hash.slice(1));
  const [layer, head] = (wanted.get("head") ?? "").split(".").map(Number);
  const fits = (number, count) => Number.isInteger(number) && number >= 0 && number < count;
  return {
    texts: [wanted.get("text"), wanted.get("with")].filter((text) => text !== null),
    ...(fits(layer, layers) && fits(head, heads) ? { layer, head } : {}),
    positions: wanted.get("positions") !== "off",
    mask: wanted.get("mask") !== "off",
  };
}

export function write({ texts, layer, head, positions, mask }) {
  const state = new URLSearchParams({ text: texts[0], head: `${layer}.${head}` });
  if (texts.length > 1) state.set("with", texts[1]);
  if (!positions) state.set("positions", "off");
  if (!mask) state.set("mask", "off");
  return `#${state}`;
}
