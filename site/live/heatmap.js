// Attention maps: small ones as pictures, a large one as a table that can be read.

// Matplotlib's viridis at even distances, as in the lessons.
const VIRIDIS = ["440154", "482475", "414487", "355f8d", "2a788e", "21918c", "22a884", "44bf70", "7ad151", "bddf26", "fde725"]
  .map((hex) => [0, 2, 4].map((place) => parseInt(hex.slice(place, place + 2), 16)));
const READABLE = 16; // tokens, up to which numbers have room in the cells

/** The colour of a weight between 0 and 1: [red, green, blue]. */
export function colour(weight) {
  const place = Math.min(Math.max(weight, 0), 1) * (VIRIDIS.length - 1);
  const below = Math.min(Math.floor(place), VIRIDIS.length - 2);
  return VIRIDIS[below].map((low, part) => Math.round(low + (VIRIDIS[below + 1][part] - low) * (place - below)));
}

/** .07 for 0.07, as in the lessons. */
export function short(number) {
  const text = number.toFixed(2);
  return text.replace(/^(-?)0\./, "$1.");
}

/** Draw a map, one pixel for each weight; the style makes it larger. */
export function paint(canvas, rows) {
  canvas.width = canvas.height = rows.length;
  const picture = new ImageData(rows.length, rows.length);
  rows.forEach((row, i) =>
    row.forEach((weight, j) => picture.data.set([...colour(weight), 255], 4 * (i * rows.length + j))),
  );
  canvas.getContext("2d").putImageData(picture, 0, 0);
}

/** How bright a colour is to the eye, from 0 to 1, as WCAG 2 defines it; at .18 black and white stand out alike. */
function luminance(rgb) {
  const [red, green, blue] = rgb.map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** An element with a text and attributes. */
export function cell(kind, text, attributes = {}) {
  const made = document.createElement(kind);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function weightCell(weight, hidden) {
  if (hidden) return cell("td", "hidden", { class: "live-hidden", title: "hidden by the padding mask" });
  const rgb = colour(weight);
  const style = `background:rgb(${rgb});color:${luminance(rgb) > 0.18 ? "#000" : "#fff"}`;
  return cell("td", short(weight), { style, title: weight.toFixed(4) });
}

/** The table of a map: a row for each query, a column for each key. hidden(j): is key j behind the mask? */
export function table(rows, tokens, caption, hidden) {
  const made = document.createElement("table");
  made.className = rows.length > READABLE ? "live-map live-dense" : "live-map";
  made.style.setProperty("--tokens", rows.length);
  const head = document.createElement("tr");
  head.append(cell("th", "query ↓ key →", { class: "live-corner" }));
  head.append(...tokens.map((token) => cell("th", token, { scope: "col" })));
  const body = rows.map((row, i) => {
    const line = document.createElement("tr");
    line.append(cell("th", tokens[i], { scope: "row" }));
    line.append(...Array.from(row, (weight, j) => weightCell(weight, hidden(j))));
    return line;
  });
  made.append(cell("caption", caption));
  made.createTHead().append(head);
  made.createTBody().append(...body);
  return made;
}
