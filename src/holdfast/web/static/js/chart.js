// A line chart over time: SVG of our own, with a read-out under the pointer or the arrow keys.

import { draw, h, s } from "./dom.js";
import { clockTime } from "./words.js";

const HEIGHT = 150, TOP = 6, BOTTOM = 20, LEFT = 44;

/**
 * `lines` are `{name, label, tone, dashed, fill}`, one for each value of a point; `format` writes a value.
 * Charts that share a `Cross` show the same instant together.
 */
export class Chart {
  constructor({ title, lines, format, unit = "", least = 1, cross, headline, ceiling = roundNumber }) {
    Object.assign(this, { title, lines, format, unit, least, cross, headline, ceiling });
    this.points = [];
    this.window = [0, 1];
    this.width = 0;
    this.element = h("section", { class: "card chart", "aria-label": title });
    this.plot = h("div", { class: "plot", tabindex: "0", role: "img" });
    this.plot.addEventListener("pointermove", (event) => this.#point(event));
    this.plot.addEventListener("pointerleave", () => cross.set(null));
    this.plot.addEventListener("keydown", (event) => this.#key(event));
    this.plot.addEventListener("blur", () => cross.set(null));
    cross.add(this);
    new ResizeObserver(([entry]) => { this.width = entry.contentRect.width; this.draw(); }).observe(this.plot);
  }

  /** Shows these points, of the time from `start` to `end` in milliseconds. */
  show(points, start, end) {
    this.points = points;
    this.window = [start, end];
    this.draw();
  }

  draw() {
    const at = this.cross.at === null ? null : nearest(this.points, this.cross.at);
    const told = at ?? this.points.at(-1) ?? null;
    this.plot.setAttribute("aria-label", this.#summary(told));
    draw(this.element,
      h("div", { class: "title" }, h("h2", null, this.title), h("div", { class: "now" }, told ? this.headline(told) : "–", this.unit && h("small", null, ` ${this.unit}`))),
      h("div", { class: "legend" },
        this.lines.map((line) => h("span", { class: ["key", `tone-${line.tone}`, line.dashed && "dashed"] }, h("i"), line.label, " ", h("b", null, told ? this.format(told[line.name]) : "–"))),
        at && h("span", { class: "key faint" }, clockTime(at.time))),
      h("div", { slot: this.plot }));
    if (this.width > 60) draw(this.plot, this.#picture(at), ...this.#quiet());
  }

  #quiet() {
    const has = this.points.some((point) => this.lines.some(({ name }) => point[name] !== null));
    return has ? [] : [h("div", { class: "quiet" }, this.points.length ? "Nothing in this time" : "Waiting for the first samples")];
  }

  #picture(at) {
    const [start, end] = this.window;
    const most = Math.max(this.least, ...this.points.flatMap((point) => this.lines.map(({ name }) => point[name] ?? 0)));
    const top = this.ceiling(most);
    const x = (time) => LEFT + ((time - start) / (end - start)) * (this.width - LEFT - 2);
    const y = (value) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
    const levels = [0, 0.5, 1].map((part) => part * top);
    return s("svg", { viewBox: `0 0 ${this.width} ${HEIGHT}`, "aria-hidden": "true" },
      levels.map((level) => s("g", { key: `l${level}` },
        s("line", { class: level ? "grid" : "grid base", x1: LEFT, x2: this.width, y1: Math.round(y(level)) + 0.5, y2: Math.round(y(level)) + 0.5 }),
        s("text", { x: LEFT - 8, y: y(level) + 3.5, "text-anchor": "end" }, this.format(level)))),
      marks(start, end, this.width).map((time) => s("text", { key: `t${time}`, x: x(time), y: HEIGHT - 4, "text-anchor": "middle" }, clockTime(time).slice(0, 5))),
      this.lines.map((line) => runs(this.points, line.name).map((run, index) => {
        const along = run.map((point) => `${x(point.time).toFixed(1)},${y(point[line.name]).toFixed(1)}`);
        const floor = y(0).toFixed(1);
        return s("g", { class: `tone-${line.tone}`, key: `${line.name}${index}` },
          line.fill && s("path", { class: "fill", d: `M${x(run[0].time).toFixed(1)},${floor}L${along.join("L")}L${x(run.at(-1).time).toFixed(1)},${floor}Z` }),
          s("path", { class: line.dashed ? "stroke dashed" : "stroke", d: `M${along.join("L")}${along.length === 1 ? "h0.1" : ""}` }));
      })),
      at && s("g", { key: "cross" },
        s("line", { class: "cross", x1: x(at.time), x2: x(at.time), y1: TOP, y2: HEIGHT - BOTTOM }),
        this.lines.filter(({ name }) => at[name] !== null).map((line) => s("circle", { class: `dot tone-${line.tone}`, cx: x(at.time), cy: y(at[line.name]), r: 3.5 }))));
  }

  #summary(told) {
    if (!told) return `${this.title}: no samples yet.`;
    const values = this.lines.map((line) => `${line.label} ${this.format(told[line.name])}`).join(", ");
    return `${this.title} at ${clockTime(told.time)}: ${values}. Arrow keys move through time.`;
  }

  #point(event) {
    const box = this.plot.getBoundingClientRect();
    const [start, end] = this.window;
    this.cross.set(start + ((event.clientX - box.left - LEFT) / (box.width - LEFT - 2)) * (end - start));
  }

  #key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -15, PageDown: 15 }[event.key];
    if (!this.points.length || (step === undefined && event.key !== "Escape")) return;
    event.preventDefault();
    if (event.key === "Escape") { this.cross.set(null); return; }
    const from = this.cross.at === null ? this.points.length - 1 : this.points.indexOf(nearest(this.points, this.cross.at));
    this.cross.set(this.points[Math.min(this.points.length - 1, Math.max(0, from + step))].time);
  }
}

/** The instant that several charts point at. */
export class Cross {
  constructor() { this.at = null; this.charts = []; }
  add(chart) { this.charts.push(chart); }
  set(at) {
    if (at === this.at) return;
    this.at = at;
    for (const chart of this.charts) chart.draw();
  }
}

/** A small line without axes. */
export function spark(values, tone = "accent") {
  const known = values.filter((value) => value !== null);
  if (known.length < 2) return s("svg", { class: "spark", "aria-hidden": "true" });
  const top = Math.max(...known, 1e-9);
  const at = (value, index) => `${((index / (values.length - 1)) * 84).toFixed(1)},${(20 - ((value ?? 0) / top) * 18).toFixed(1)}`;
  const along = values.map(at).join("L");
  return s("svg", { class: `spark tone-${tone}`, viewBox: "0 0 84 22", "aria-hidden": "true" },
    s("path", { class: "fill", d: `M0,21L${along}L84,21Z` }), s("path", { class: "stroke", d: `M${along}` }));
}

function nearest(points, time) {
  let best = null;
  for (const point of points) if (!best || Math.abs(point.time - time) < Math.abs(best.time - time)) best = point;
  return best;
}

/** Stretches of points that have the value. */
function runs(points, name) {
  const found = [];
  let open = null;
  for (const point of points) {
    if (point[name] === null || point[name] === undefined) { open = null; continue; }
    if (!open) found.push(open = []);
    open.push(point);
  }
  return found;
}

/** Steps of time of which the half has a short name too. */
const TIMES = [60, 120, 240, 600, 1200, 3600, 7200, 14_400, 43_200, 86_400, 172_800, 345_600, 864_000, 1_728_000, 8_640_000];

/** The next round duration, in seconds. */
export function roundTime(value) {
  return value <= 50 ? roundNumber(value) : TIMES.find((each) => each >= value) ?? roundNumber(value);
}

/** The next round number. */
function roundNumber(value) {
  const size = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((part) => part * size >= value * 0.999) * size;
}

/** Whole minutes to be named below the axis, as many as fit. */
function marks(start, end, width) {
  const room = Math.max(2, Math.floor(width / 90));
  const step = [60, 120, 180, 300, 600, 900, 1800].find((each) => (end - start) / 1000 / each <= room) ?? 3600;
  const found = [];
  for (let time = Math.ceil(start / 1000 / step) * step * 1000; time < end - 15_000; time += step * 1000) if (time > start + 15_000) found.push(time);
  return found;
}
