// What is asked for, as the part of the address behind #, so that a view can be handed on.

/** {texts, layer, head, token, step, positions, mask} of an address; numbers only if there is such a thing. */
export function read(hash, layers, heads, steps) {
  const wanted = new URLSearchParams(hash.slice(1));
  const number = (text, count) => (/^\d+$/.test(text ?? "") && Number(text) < count ? Number(text) : undefined);
  const [layer, head] = (wanted.get("head") ?? "").split(".");
  const found = { layer: number(layer, layers), head: number(head, heads) };
  if (found.layer === undefined || found.head === undefined) found.layer = found.head = undefined;
  Object.assign(found, { token: number(wanted.get("token"), Infinity), step: number(wanted.get("step"), steps) });
  return {
    texts: [wanted.get("text"), wanted.get("with")].filter((text) => text !== null),
    ...Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined)),
    positions: wanted.get("positions") !== "off",
    mask: wanted.get("mask") !== "off",
  };
}

export function write({ texts, layer, head, token, step, positions, mask }) {
  const state = new URLSearchParams({ text: texts[0], head: `${layer}.${head}`, token, step });
  if (texts.length > 1) state.set("with", texts[1]);
  if (!positions) state.set("positions", "off");
  if (!mask) state.set("mask", "off");
  return `#${state}`;
}
