// The overview of the encoder, an SVG: a box for each step, in the part of the model to which the step belongs.

import { arrows } from "./dom.js";
import { LAYERS, range } from "./run.js";

// Each part, and how many steps it has; the two in the middle make up a layer.
const PARTS = [["Embeddings", 3], ["Attention", 6], ["Feed-forward", 2], ["Sentence vector", 2]];
const NAMED = 860; // pixels, from which on the boxes have room for names
const TOP = 38, TALL = 34, HEIGHT = TOP + TALL + 6;

export class Overview {
  /** names: of the steps, the first being 1; picked(step): one is pressed. All of them are one tab stop. */
  constructor(box, names, picked) {
    Object.assign(this, { box, names });
    const press = (event) => {
      const step = event.target.closest("[data-step]")?.dataset.step;
      if (!step || ![undefined, "Enter", " "].includes(event.key)) return;
      event.preventDefault();
      picked(Number(step));
    };
    box.addEventListener("click", press);
    box.addEventListener("keydown", press); // an SVG has no buttons that would do this
    arrows(box, "[data-step]", (place) => this.stopAt(place + 1));
    new ResizeObserver(() => this.draw()).observe(box);
  }

  /** Light a step: 0 lights none. */
  mark(step, layer) {
    this.now = [step, layer];
    if (!this.box.firstChild) this.draw();
    for (const each of this.box.querySelectorAll("[data-step]")) {
      if (Number(each.dataset.step) === step) each.setAttribute("aria-current", "step");
      else each.removeAttribute("aria-current");
    }
    this.box.querySelector(".overview-layer").textContent = `Layer ${layer}, one of ${LAYERS} (0 to ${LAYERS - 1})`;
    this.stopAt(step || 1);
  }

  stopAt(step) {
    this.box.querySelectorAll("[data-step]").forEach((each, place) => (each.tabIndex = place + 1 === step ? 0 : -1));
  }

  draw() {
    const width = Math.max(this.box.clientWidth, 240), isWide = width >= NAMED, between = isWide ? 20 : 11;
    const size = (width - 4 - between * (PARTS.length - 1)) / this.names.length;
    const ends = [], middle = TOP + TALL / 2;
    let left = 2, step = 1;
    const parts = PARTS.map(([name, count]) => {
      const centre = left + (count * size) / 2, lines = isWide ? [name] : name.split(/(?<=[- ])/);
      const titles = lines.map((line, place) => text(centre, TOP - 5 - 11 * (lines.length - 1 - place), line));
      const boxes = range(count).map((_, place) => this.step(step + place, left + place * size, size, isWide));
      const arrow = left > 2 ? `<path d="M${left - between} ${middle}h${between - 2}m-4 -3l4 3l-4 3"/>` : "";
      ends.push(left, left + count * size);
      [left, step] = [left + count * size + between, step + count];
      const title = `<g aria-hidden="true">${arrow}${titles.join("")}</g>`;
      return `${title}<g role="group" aria-label="${name}">${boxes.join("")}</g>`;
    });
    const from = ends[2] - 5, wide = ends[5] + 5 - from; // the layer's frame; those of other layers behind it
    const frames = [4, 2, 0].map((by) => rect(from + by, 4 - by, wide - by, HEIGHT - 6));
    this.box.innerHTML = `<svg width="${width}" height="${HEIGHT}" role="toolbar" aria-label="Overview of the encoder">
      ${frames.join("")}<text class="overview-layer" x="${from + 8}" y="15"></text>${parts.join("")}</svg>`;
    if (this.now) this.mark(...this.now);
  }

  step(step, left, size, isWide) {
    const name = this.names[step - 1], isLong = name.length > 11 && size < 80;
    const lines = isWide ? [step, ...(isLong ? name.split(/ |(?<=-)/) : [name])] : [step], apart = isLong ? 10 : 14;
    const y = (line) => TOP + 21 + apart * (line - (lines.length - 1) / 2);
    const words = lines.map((words, line) => text(left + size / 2, y(line), words)).join(" ");
    return `<g role="button" data-step="${step}" aria-label="${step} ${name}" style="--step:${step}">
      ${rect(left, TOP, size, TALL)}${words}</g>`;
  }
}

const text = (x, y, words) => `<text x="${x}" y="${y}">${words}</text>`;
const rect = (x, y, width, height) => `<rect x="${x}" y="${y}" width="${width}" height="${height}"/>`;
