// A line chart over time: axes with units, values under the pointer or the arrow keys, a table for screen readers.
//
// series: { label, points: [[ms, value], …] }, at most six. format(value): with its unit.

import { h, replace, svg } from "./dom.js";
import { clockTime } from "./format.js";

const WIDTH = 640; // until the width on the page is known
const HEIGHT = 180;
const LEFT = 62;
const BOTTOM = 22;
const TOP = 8;

export class Chart {
  constructor({ label, format, max = null }) {
    this.format = format;
    this.max = max;
    this.series = [];
    this.label = label;
    this.width = WIDTH;
    this.drawing = svg("svg", { role: "img", tabindex: "0", "aria-label": label });
    this.legend = h("ul.legend");
    this.at = null;
    this.node = h("div.chart", this.drawing, this.legend);
    this.drawing.addEventListener("pointermove", (event) => this.#pointTo(event));
    this.drawing.addEventListener("pointerleave", () => this.#select(null));
    this.drawing.addEventListener("keydown", (event) => this.#onKey(event));
    this.drawing.addEventListener("blur", () => this.#select(null));
    new ResizeObserver(() => this.#resize()).observe(this.drawing);
  }

  update(series) {
    this.series = series;
    const points = series.flatMap((one) => one.points);
    this.times = [...new Set(points.map(([ms]) => ms))].sort((a, b) => a - b);
    this.from = this.times[0] ?? 0;
    this.to = this.times.at(-1) ?? 1;
    this.top = this.max ?? niceMaximum(Math.max(0, ...points.map(([, value]) => value ?? 0)));
    this.#draw();
  }

  #resize() {
    const width = Math.round(this.drawing.getBoundingClientRect().width);
    if (!width || width === this.width) return;
    this.width = width;
    this.#draw();
  }

  #x(ms) {
    return LEFT + ((ms - this.from) / (this.to - this.from || 1)) * (this.width - LEFT - 8);
  }

  #y(value) {
    return TOP + (1 - value / (this.top || 1)) * (HEIGHT - TOP - BOTTOM);
  }

  #draw() {
    this.drawing.setAttribute("viewBox", `0 0 ${this.width} ${HEIGHT}`);
    if (!this.times) return;
    const marks = [0, 0.5, 1].map((part) => part * this.top);
    const times = this.times.length > 1 ? [this.from, (this.from + this.to) / 2, this.to] : [];
    replace(
      this.drawing,
      svg("title", this.label),
      marks.map((value) => [
        svg("line.axis", { x1: LEFT, x2: this.width - 8, y1: this.#y(value), y2: this.#y(value) }),
        svg("text", { x: LEFT - 6, y: this.#y(value) + 4, "text-anchor": "end" }, this.format(value)),
      ]),
      times.map((ms, index) =>
        svg("text", { x: this.#x(ms), y: HEIGHT - 6, "text-anchor": ["start", "middle", "end"][index] }, clockTime(ms)),
      ),
      this.series.map((one, index) => svg("path", { class: `line series-${index + 1}`, d: this.#path(one.points) })),
      this.at !== null && svg("line.cursor", { x1: this.#x(this.at), x2: this.#x(this.at), y1: TOP, y2: HEIGHT - BOTTOM }),
    );
    this.#drawLegend();
  }

  // A point without a value interrupts the line.
  #path(points) {
    let isOpen = false;
    return points
      .map(([ms, value]) => {
        if (value === null || value === undefined) {
          isOpen = false;
          return "";
        }
        const step = `${isOpen ? "L" : "M"}${this.#x(ms).toFixed(1)},${this.#y(value).toFixed(1)}`;
        isOpen = true;
        return step;
      })
      .join("");
  }

  #drawLegend() {
    replace(
      this.legend,
      this.at !== null && h("li", clockTime(this.at)),
      this.series.map((one, index) => {
        const [, value] = (this.at === null ? one.points.at(-1) : one.points.find(([ms]) => ms === this.at)) ?? [0, null];
        const mark = svg("svg", { viewBox: "0 0 14 4", "aria-hidden": "true" }, svg("path", { class: `line series-${index + 1}`, d: "M0,2H14" }));
        return h("li", mark, `${one.label}: ${value === null || value === undefined ? "–" : this.format(value)}`);
      }),
    );
  }

  #pointTo(event) {
    const box = this.drawing.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * this.width;
    const nearest = this.times?.reduce((best, ms) => (Math.abs(this.#x(ms) - x) < Math.abs(this.#x(best) - x) ? ms : best), this.from);
    this.#select(this.times?.length ? nearest : null);
  }

  #onKey(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || !this.times?.length) return;
    event.preventDefault();
    const index = this.at === null ? this.times.length - 1 : this.times.indexOf(this.at) + step;
    this.#select(this.times[Math.max(0, Math.min(index, this.times.length - 1))]);
  }

  #select(ms) {
    if (ms === this.at) return;
    this.at = ms;
    this.#draw();
  }
}

// 1, 2 or 5 times a power of ten, so that the marks of the axis are round.
function niceMaximum(value) {
  if (value <= 0) return 10;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((one) => one * power).find((one) => one >= value);
}
