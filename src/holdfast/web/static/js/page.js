// What every page has in common: it loads, draws, refreshes while somebody looks, and ends.

import { draw, h } from "./dom.js";
import { bones, button, notice } from "./parts.js";

export class Page {
  title = "Holdfast";
  crumbs = [];
  /** How often the page asks again, in milliseconds; 0 for one that only the stream keeps current. */
  interval = 5_000;

  constructor(app, route) {
    this.app = app;
    this.api = app.api;
    this.route = route;
    this.root = h("div", { class: "page" });
    this.data = null;
    this.error = null;
    this.ended = new AbortController();
  }

  /** What the page shows, from the API. */
  async load() { return {}; }

  /** The page for `this.data`, which is there. */
  view() { return []; }

  /** The page before the first answer. */
  bones() { return h("section", { class: "card" }, bones(8)); }

  /** Its heading; `words` say what is here, `actions` are buttons. */
  head(title, words, actions = null) {
    return h("header", { class: "page-head", key: "head" },
      h("div", { class: "words" }, h("h1", { tabindex: "-1" }, title), words && h("p", { class: "lead" }, words)),
      actions && h("div", { class: "actions" }, actions));
  }

  async start() {
    this.draw();
    await this.refresh();
    if (this.interval) this.timer = setInterval(() => this.tick(), this.interval);
  }

  tick() { if (!document.hidden && !this.busy) this.refresh(); }

  async refresh() {
    this.busy = true;
    const asked = this.asked = {};
    try {
      const data = await this.load();
      if (this.asked !== asked) return;
      this.data = data;
      this.error = null;
    } catch (error) {
      if (this.asked !== asked) return;
      this.error = error;
    } finally {
      if (this.asked === asked) this.busy = false;
    }
    this.draw();
  }

  stop() {
    this.ended.abort();
    clearInterval(this.timer);
  }

  /** Hears the stream until the page ends. */
  hear(name, listener) { this.app.live.addEventListener(name, (event) => listener(event.detail), { signal: this.ended.signal }); }

  draw() {
    if (this.ended.signal.aborted) return;
    draw(this.root, ...[this.#trouble(), this.data ? this.view() : this.error ? null : this.bones()].flat(Infinity).filter(Boolean));
  }

  #trouble() {
    if (!this.error) return null;
    const stale = this.data ? " What you see may be old." : "";
    return notice("bad", `${this.error.message}${stale}`, button("Try again", { small: true, onclick: () => this.refresh() }));
  }

  /** Does something for the user, tells what came of it, and shows the new state. */
  async act(work, done) {
    try {
      const answer = await work();
      const words = typeof done === "function" ? done(answer) : done;
      if (words) this.app.toast(words);
    } catch (error) {
      this.app.toast(error.message, "bad");
    }
    await this.refresh();
  }
}
