// One queue: its state, its charts, its newest jobs.

import { h } from "../dom.js";
import { jobRows } from "../joblist.js";
import { Page } from "../page.js";
import { Panels } from "../panels.js";
import { card, empty, facts, jobsHref, notice, number, when } from "../parts.js";
import { Series } from "../series.js";
import { badge } from "../states.js";
import { span } from "../words.js";
import { limitsCard, pauseButton } from "./queues.js";

export class QueuePage extends Page {
  constructor(app, route) {
    super(app, route);
    this.name = route.path[1];
    this.title = `Queue ${this.name}`;
    this.crumbs = [["Queues", "#/queues"], [this.name, null]];
    this.series = new Series(15);
    this.panels = new Panels();
  }

  async load() {
    const minutes = this.series.points.length ? 1 : 15;
    const [{ queues }, { limits }, series, { jobs }] = await Promise.all([
      this.api.get("queues"), this.api.get("limits"), this.api.get("series", { queue: this.name, minutes }), this.api.get("jobs", { queue: this.name, limit: 10 }),
    ]);
    if (minutes === 1) this.series.add(...series.points);
    else this.series.replace(series.points);
    this.panels.show(this.series);
    return { queue: queues.find((each) => each.name === this.name), limits: limits.filter((each) => each.scope === "queue" && each.name === this.name), jobs };
  }

  view() {
    const { queue, limits, jobs } = this.data;
    if (!queue) return h("section", { class: "card" }, empty("queues", `There is no queue ${this.name}`, "A queue appears with its first job.", h("a", { class: "button", href: "#/queues" }, "All queues")));
    const { counts } = queue;
    return [
      this.head(h("span", null, this.name, " ", badge(queue.paused ? "paused" : "open")), null, pauseButton(this, queue, {})),
      queue.paused ? notice("warn", h("span", null, "Nothing of this queue starts", queue.paused_since ? [": it was paused ", when(queue.paused_since)] : "", ".")) : null,
      card("Now", facts([
        ["Queued", h("a", { href: jobsHref({ queue: this.name, state: "scheduled" }) }, number(counts.queued))],
        ["First in line", queue.oldest === null || queue.oldest === undefined ? "nothing waits" : `has waited for ${span(queue.oldest)}`],
        ["Held back", counts.parked ? number(counts.parked) : null],
        ["In progress", h("a", { href: jobsHref({ queue: this.name, state: "running" }) }, number(counts.in_progress))],
        ["Later", number(counts.scheduled)],
        ["Failed", counts.failed ? h("a", { class: "bad", href: jobsHref({ queue: this.name, state: "dlq" }) }, number(counts.failed)) : "0"],
        ["Completed", number(counts.completed)],
        ["Weight", queue.weight && queue.weight !== 1 ? queue.weight : null],
      ]), { key: "now" }),
      h("div", { class: "charts", key: "charts" }, this.panels.charts.map((chart) => h("div", { slot: chart.element, key: chart.title }))),
      limitsCard(this, limits, { queue: this.name }),
      card("Newest jobs", jobs.length ? jobRows(jobs) : empty("jobs", "No jobs", "None of this queue is stored."), { key: "jobs", flush: true, end: h("a", { class: "muted", href: jobsHref({ queue: this.name }) }, "All") }),
    ];
  }
}
