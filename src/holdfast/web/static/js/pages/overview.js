// Overview: is it healthy, what goes through, what waits.

import { spark } from "../chart.js";
import { h } from "../dom.js";
import { verdict } from "../health.js";
import { icon } from "../icons.js";
import { Page } from "../page.js";
import { Panels } from "../panels.js";
import { bones, card, empty, facts, href, jobsHref, meter, number, when, workerLink } from "../parts.js";
import { Series } from "../series.js";
import { badge } from "../states.js";
import { table } from "../table.js";
import { many, setNow, span } from "../words.js";

const RANGES = [5, 15];

export class Overview extends Page {
  title = "Overview";
  crumbs = [["Overview", null]];
  interval = 0;

  constructor(app, route) {
    super(app, route);
    this.series = new Series(15);
    this.panels = new Panels();
    this.hear("overview", (overview) => { this.data = overview; this.error = null; this.draw(); });
    this.hear("point", (point) => { this.series.add(point); this.panels.show(this.series); });
    this.hear("state", (state) => { if (state === "live") this.refresh(); });
  }

  async load() {
    const [overview, series] = await Promise.all([this.api.get("overview"), this.api.get("series", { minutes: this.series.minutes })]);
    setNow(overview.now);
    this.app.live.overview ??= overview;
    this.series.replace(series.points);
    this.panels.show(this.series);
    return overview;
  }

  bones() {
    return [h("section", { class: "card" }, bones(2)), h("section", { class: "card" }, bones(2)), h("div", { class: "charts" }, [1, 2, 3, 4].map(() => h("section", { class: "card" }, bones(6))))];
  }

  view() {
    return [this.#health(), this.#tiles(), this.#charts(), h("div", { class: "pair", key: "pair" }, this.#queues(), h("div", { class: "stack" }, this.#work(), this.#leader()))];
  }

  #health() {
    const { tone, sentence, to, notes } = verdict(this.data, this.series.points);
    const picture = { good: "check", warn: "warn", bad: "cross" }[tone];
    return h("section", { class: ["card", "health", `tone-${tone}`], key: "health", "aria-label": "Health", "data-health": tone },
      h("span", { class: "sign" }, icon(picture)),
      h("div", null,
        h("h1", { class: "verdict", tabindex: "-1" }, to ? h("a", { href: to }, sentence) : sentence),
        notes.length ? h("ul", null, notes.map(({ words, to: there }) => h("li", { key: words }, there ? h("a", { href: there }, words) : words))) : null));
  }

  #tiles() {
    const { stats } = this.data;
    const tile = (label, value, to, picture, tone, sub = null) => h("a", { href: to, key: label }, h("span", { class: ["label", `tone-${tone}`] }, icon(picture), label), h("span", { class: "value" }, number(value)), h("span", { class: "sub" }, sub ?? "\u00a0"));
    return h("section", { class: "card tiles", key: "tiles", "aria-label": "Jobs by what becomes of them" },
      tile("Queued", stats.queued, jobsHref({ state: "scheduled" }), "queues", "accent", stats.parked ? `${many(stats.parked, "job")} held back` : "due now"),
      tile("Later", stats.scheduled, jobsHref({ state: "scheduled" }), "clock", "calm", `${many(stats.by_state?.retry ?? 0, "retry", "retries")}`),
      tile("In progress", stats.in_progress, jobsHref({ state: "running" }), "play", "busy", "claimed or running"),
      tile("Completed", stats.completed, jobsHref({ state: "success" }), "check", "good", "kept in history"),
      tile("Dead letters", this.data.dlq, "#/dead", "box", "bad", "want a decision"),
      tile("Cancelled", stats.cancelled, jobsHref({ state: "cancelled" }), "ban", "calm"));
  }

  #charts() {
    const range = (minutes) => h("button", { type: "button", "aria-pressed": String(this.series.minutes === minutes), onclick: () => { this.series.minutes = minutes; this.refresh(); } }, `${minutes} min`);
    return h("section", { class: "stack", key: "charts", "aria-label": "The last minutes" },
      h("div", { class: "page-head middle" }, h("div", { class: "words" }, h("h2", null, "The last minutes")), h("div", { class: "segment", role: "group", "aria-label": "Time shown" }, RANGES.map(range))),
      h("div", { class: "charts" }, this.panels.charts.map((chart) => h("div", { slot: chart.element, key: chart.title }))));
  }

  #queues() {
    const queues = [...this.data.queues].sort((a, b) => b.counts.queued - a.counts.queued || a.name.localeCompare(b.name)).slice(0, 8);
    const body = queues.length ? table({
      label: "Queues", rows: queues, key: (queue) => queue.name,
      columns: [
        { label: "Queue", whole: true, cell: (queue) => h("a", { class: "main name", href: href("queues", queue.name), title: queue.name }, queue.name) },
        { label: "State", cell: (queue) => badge(queue.paused ? "paused" : "open") },
        { label: "Queued", num: true, zero: (queue) => !queue.counts.queued, cell: (queue) => number(queue.counts.queued) },
        { label: "", head: h("span", { class: "unseen" }, "Queued lately"), fit: true, cell: (queue) => spark(this.app.live.backlogs.get(queue.name) ?? [], queue.paused ? "warn" : "accent") },
        { label: "In progress", num: true, zero: (queue) => !queue.counts.in_progress, cell: (queue) => number(queue.counts.in_progress) },
        { label: "First waits", num: true, zero: (queue) => queue.oldest === null, cell: (queue) => (queue.oldest === null || queue.oldest === undefined ? "–" : span(queue.oldest)) },
      ],
    }) : empty("queues", "No queue yet", "A queue appears with its first job.");
    return card("Queues", body, { flush: true, end: h("a", { class: "muted", href: "#/queues" }, this.data.queues.length > 8 ? `All ${this.data.queues.length}` : "All") });
  }

  #work() {
    const { workers } = this.data;
    const part = workers.slots ? workers.busy / workers.slots : 0;
    return card("Workers", facts([
      ["Live", h("a", { href: "#/workers" }, many(workers.live, "worker"), workers.dead ? h("span", { class: "bad" }, `, ${workers.dead} silent`) : null)],
      ["Slots", workers.slots ? h("span", null, meter(part, part >= 1 ? "warn" : "busy"), ` ${workers.busy} of ${workers.slots} busy`) : "–"],
    ]));
  }

  #leader() {
    const { leader, schedules } = this.data;
    return card("Schedules", facts([
      ["Leader", leader ? h("span", null, workerLink(leader.worker)) : h("span", { class: schedules.total ? "warn" : "faint" }, "nobody leads")],
      ["Term", leader ? h("span", { class: "mono" }, leader.term) : null],
      ["Schedules", h("a", { href: "#/schedules" }, `${schedules.total}${schedules.paused ? `, ${schedules.paused} paused` : ""}`)],
      ["Next", when(schedules.next, "nothing to come")],
    ]));
  }
}
