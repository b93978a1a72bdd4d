// Numbers as colours: weights in viridis, numbers of either sign from blue to red; a map as a table.

import { cell, made, short } from "./dom.js";

// Both of matplotlib's at even distances, as in the lessons.
const VIRIDIS = "440154 482475 414487 355f8d 2a788e 21918c 22a884 44bf70 7ad151 bddf26 fde725";
const SIGNED = "053061 2a71b2 6bacd1 c2ddec f7f6f6 fbceb7 e58368 bb2a34 67001f"; // RdBu_r
const [WEIGHTS, SIGNS] = [VIRIDIS, SIGNED].map((list) =>
  list.split(" ").map((hex) => [0, 2, 4].map((place) => parseInt(hex.slice(place, place + 2), 16))),
);
const READABLE = 16; // tokens, up to which numbers have room in the cells

/** The colour at a share from 0 to 1 of a list of colours: [red, green, blue]. */
function between(colours, share) {
  const place = Math.min(Math.max(share, 0), 1) * (colours.length - 1);
  const below = Math.min(Math.floor(place), colours.length - 2);
  const mixed = (low, part) => Math.round(low + (colours[below + 1][part] - low) * (place - below));
  return colours[below].map(mixed);
}

export const ofWeight = (weight, most) => between(WEIGHTS, weight / (most || 1));
export const ofSigned = (number, most) => between(SIGNS, (number / (most || 1) + 1) / 2); // all 0: white

/** Draw rows of colours, a pixel for each; the style makes it larger. */
export function paint(canvas, rows, colour) {
  [canvas.width, canvas.height] = [rows[0].length, rows.length];
  const picture = new ImageData(canvas.width, canvas.height);
  rows.forEach((row, i) =>
    row.forEach((number, j) => picture.data.set([...colour(number, j), 255], 4 * (i * canvas.width + j))),
  );
  canvas.getContext("2d").putImageData(picture, 0, 0);
  return canvas;
}

/** A background, and black or white on it: brightness as in WCAG 2, at 0.18 both stand out equally. */
export function style(rgb) {
  const [red, green, blue] = rgb.map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  const bright = 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18;
  return `background:rgb(${rgb});color:${bright ? "#000" : "#fff"}`;
}

/** The largest weight of a map, on which its colours end. */
export const mostOf = (rows) => Math.max(0.01, ...rows.map((row) => Math.max(...row)));

/** Draw a map as a small picture, on a scale of its own. */
export function thumbnail(canvas, rows) {
  const most = mostOf(rows);
  return paint(canvas, rows, (weight) => ofWeight(weight, most));
}

/**
 * The table of a map, for the eye: a row for each query, a column for each key. What it shows is described next to
 * it in words, so a screen reader passes over it. picked(query, key) is told of a click; keys from `seen` on
 * are masked; at: [query, key] that is picked; no key, if none is
 */
export function table(rows, tokens, { caption, seen, picked, at }) {
  const dense = rows.length > READABLE, most = mostOf(rows);
  const head = made("tr", {}, made("th", { class: "live-corner" }, "query ↓\nkey →"));
  head.append(...tokens.map((token) => made("th", { scope: "col" }, token)));
  const lines = rows.map((row, i) => {
    const line = made("tr", i === at[0] ? { class: "live-at" } : {}, made("th", { scope: "row" }, tokens[i]));
    if (!dense) line.append(...Array.from(row, (weight, j) => weightCell(weight, j >= seen, most)));
    else if (i === 0) line.append(picture(rows, seen, most));
    if (i === at[0] && !dense && at[1] !== null) line.children[at[1] + 1]?.classList.add("live-cell");
    return line;
  });
  const map = made("table", { class: dense ? "live-map live-dense" : "live-map", "aria-hidden": true });
  map.style.setProperty("--tokens", rows.length);
  map.append(made("caption", {}, caption), made("thead", {}, head), made("tbody", {}, ...lines));
  map.addEventListener("click", (event) => {
    const place = placeOf(event, rows.length);
    if (place) picked(...place);
  });
  return map;
}

function weightCell(weight, isHidden, most) {
  if (isHidden) return cell("", { class: "live-hidden", title: "hidden by the padding mask" });
  return cell(short(weight), { style: style(ofWeight(weight, most)), title: weight.toFixed(4) });
}

/** Thousands of cells would take a second: they are one picture. */
function picture(rows, seen, most) {
  const colour = (weight, key) => (key < seen ? ofWeight(weight, most) : [154, 160, 166]);
  return cell(paint(made("canvas"), rows, colour), { rowspan: rows.length, colspan: rows.length });
}

/** Query and key of a click on a cell or on the picture of all. */
function placeOf({ target, offsetX, offsetY }, length) {
  const shares = [offsetY / target.clientHeight, offsetX / target.clientWidth];
  if (target.tagName === "CANVAS") return shares.map((share) => Math.floor(share * length));
  const box = target.closest("td:not([rowspan])");
  return box && [box.parentNode.rowIndex - 1, box.cellIndex - 1];
}
