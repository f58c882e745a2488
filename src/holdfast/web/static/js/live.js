// The stream of changes: one connection, reopened with growing pauses, and none while nobody looks.

import { address } from "./api.js";

const EVENTS = ["overview", "point", "job"];
const LONGEST = 15_000;
const SILENCE = 45_000;
const SAMPLES = 90;

export class Live extends EventTarget {
  constructor(api) {
    super();
    this.api = api;
    this.state = "reconnecting";
    this.jobs = [];
    this.overview = null;
    /** How many jobs waited in each queue, as far as this tab has seen it. */
    this.backlogs = new Map();
    this.failures = 0;
    this.wanted = false;
    document.addEventListener("visibilitychange", () => this.#look());
  }

  start() { this.wanted = true; this.#look(); }
  stop() { this.wanted = false; this.#close(); }

  /** Asks for news of these jobs too. */
  watch(jobs) {
    if (jobs.join() === this.jobs.join()) return;
    this.jobs = jobs;
    if (this.source) { this.#close(); this.#open(); }
  }

  #look() {
    clearTimeout(this.hiding);
    if (!this.wanted) return;
    if (!document.hidden) { if (!this.source) this.#open(); return; }
    this.hiding = setTimeout(() => { this.#close(); this.#turn("paused"); }, 30_000);
  }

  #open() {
    clearTimeout(this.waiting);
    const source = new EventSource(address("stream", { job: this.jobs }));
    this.source = source;
    source.onopen = () => { this.failures = 0; this.#turn("live"); this.#heard(); };
    source.onerror = () => this.#fail(source);
    for (const name of EVENTS) source.addEventListener(name, (event) => { this.#heard(); this.#tell(name, event.data); });
  }

  #close() {
    clearTimeout(this.waiting);
    clearTimeout(this.silence);
    this.source?.close();
    this.source = null;
  }

  /** A proxy may keep a dead connection open: after a long silence it is made anew. */
  #heard() {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => this.source && this.#fail(this.source), SILENCE);
  }

  #fail(source) {
    if (source !== this.source) return;
    this.#close();
    this.#turn("reconnecting");
    this.failures += 1;
    const pause = Math.min(LONGEST, 500 * 2 ** this.failures) * (0.75 + Math.random() / 2);
    this.waiting = setTimeout(() => this.#again(), pause);
  }

  /** Whether the session has ended is told by an ordinary request: a stream's refusal has no words. */
  async #again() {
    try {
      await this.api.get("session");
    } catch (error) {
      if (error.status === 401) { this.api.onSignedOut(); return; }
    }
    if (this.wanted && !document.hidden && !this.source) this.#open();
  }

  #tell(name, text) {
    let detail;
    try { detail = JSON.parse(text); } catch { return; }
    if (name === "overview") this.#keep(detail);
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }

  #keep(overview) {
    this.overview = overview;
    const before = this.backlogs;
    this.backlogs = new Map(overview.queues.map(({ name, counts }) => [name, [...(before.get(name) ?? []), counts.queued].slice(-SAMPLES)]));
  }

  #turn(state) {
    if (state === this.state) return;
    this.state = state;
    this.dispatchEvent(new CustomEvent("state", { detail: state }));
  }
}
