// One worker: what it serves, and what it holds.

import { path } from "../api.js";
import { h } from "../dom.js";
import { jobRows } from "../joblist.js";
import { Page } from "../page.js";
import { card, copyable, empty, facts, href, when } from "../parts.js";
import { badge } from "../states.js";
import { table } from "../table.js";
import { brief, many, span } from "../words.js";
import { slots, total } from "./workers.js";

export class WorkerPage extends Page {
  constructor(app, route) {
    super(app, route);
    this.id = route.path[1];
    this.title = `Worker ${this.id}`;
    this.crumbs = [["Workers", "#/workers"], [this.id, null]];
  }

  async load() {
    try {
      return await this.api.get(`workers/${path(this.id)}`);
    } catch (error) {
      if (error.status === 404) return { worker: null };
      throw error;
    }
  }

  view() {
    const { worker, jobs } = this.data;
    if (!worker) return h("section", { class: "card" }, empty("workers", "There is no such worker", "It ended, and was forgotten since.", h("a", { class: "button", href: "#/workers" }, "All workers")));
    const { report } = worker;
    return [
      this.head(h("span", null, h("span", { class: "mono" }, worker.id), " ", badge(worker.live ? "live" : "dead", worker.live ? "live" : "silent")), `${worker.host}, process ${worker.pid}`),
      h("div", { class: "pair", key: "pair" },
        h("div", { class: "stack" },
          card("Holds", jobs.length ? jobRows(jobs, { hide: ["Worker"] }) : empty("jobs", "It holds nothing", "Every slot is free."), { flush: true, lead: jobs.length ? many(jobs.length, "job") : null }),
          report && Object.keys(report.by_queue ?? {}).length ? card("Since its start", this.#queues(report), { flush: true }) : null),
        card("Details", facts([
          ["Id", copyable(worker.id)],
          ["Slots", slots(worker)],
          ["Claims", report ? (report.claiming ? "yes" : h("span", { class: "warn" }, "not at the moment")) : null],
          ["Longest run", report?.oldest_run ? span(report.oldest_run) : null],
          ["Seen", when(worker.seen)],
          ["Up since", when(worker.started)],
          ["Done", report ? brief(total(worker, "success")) : null],
          ["Failed", report ? brief(total(worker, "failed")) : null],
          ["Version", worker.version],
          ["Queues", h("span", { class: "tags" }, worker.queues.map((name) => h("a", { class: "tag", href: href("queues", name) }, name)))],
          ["Tasks", h("span", { class: "tags" }, worker.tasks.map((name) => h("span", { class: "tag" }, name)))],
        ]))),
    ];
  }

  #queues(report) {
    return table({
      label: "By queue", rows: Object.entries(report.by_queue), key: ([name]) => name,
      columns: [
        { label: "Queue", whole: true, cell: ([name]) => h("a", { class: "main", href: href("queues", name) }, name) },
        ...["claimed", "success", "retried", "failed"].map((name) => ({ label: name[0].toUpperCase() + name.slice(1), num: true, zero: ([, each]) => !each[name], cell: ([, each]) => brief(each[name]) })),
      ],
    });
  }
}
