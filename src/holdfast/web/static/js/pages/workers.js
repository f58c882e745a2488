// Workers: who is there, what they serve, how busy they are.

import { h } from "../dom.js";
import { icon } from "../icons.js";
import { leaderLine } from "../leader.js";
import { Page } from "../page.js";
import { empty, href, when } from "../parts.js";
import { badge } from "../states.js";
import { table } from "../table.js";
import { brief, many, span } from "../words.js";

export class Workers extends Page {
  title = "Workers";
  crumbs = [["Workers", null]];

  async load() {
    const [{ workers }, { leader, partitions }] = await Promise.all([this.api.get("workers"), this.api.get("leader")]);
    return { workers, leader, partitions };
  }

  view() {
    const { workers, leader, partitions } = this.data;
    const live = workers.filter((worker) => worker.live);
    return [
      this.head("Workers", workers.length ? `${many(live.length, "worker")} ${live.length === 1 ? "is" : "are"} live${workers.length > live.length ? `; ${workers.length - live.length} not heard of` : ""}.` : null),
      leaderLine(leader, partitions),
      h("section", { class: "card", key: "workers" }, workers.length ? this.#table(workers, leader) : empty("workers", "No worker has registered", "Start one with: holdfast worker module:app")),
    ];
  }

  #table(workers, leader) {
    const leads = leader?.worker;
    return table({
      label: "Workers", rows: workers, key: (worker) => worker.id, dim: (worker) => !worker.live,
      columns: [
        { label: "Worker", whole: true, cell: (worker) => h("span", { class: "two" }, h("span", { class: "worker-head" }, h("a", { class: "main mono name", title: worker.id, href: href("workers", worker.id) }, worker.id), worker.id === leads ? h("span", { class: "state tone-accent", title: "It fires schedules and tidies up" }, icon("crown"), "leader") : null), h("small", null, `${worker.host}, process ${worker.pid}`)) },
        { label: "State", fit: true, cell: (worker) => badge(worker.live ? (worker.report?.claiming === false ? "paused" : "live") : "dead", worker.live ? (worker.report?.claiming === false ? "not claiming" : "live") : "silent") },
        { label: "Slots", cell: (worker) => slots(worker) },
        { label: "Longest run", num: true, none: (worker) => !worker.report?.oldest_run, cell: (worker) => span(worker.report?.oldest_run) },
        { label: "Done", num: true, cell: (worker) => brief(total(worker, "success")) },
        { label: "Failed", num: true, zero: (worker) => !total(worker, "failed"), cell: (worker) => brief(total(worker, "failed")) },
        { label: "Queues", cell: (worker) => h("span", { class: "tags" }, worker.queues.slice(0, 4).map((name) => h("a", { class: "tag", href: href("queues", name) }, name)), worker.queues.length > 4 ? h("span", { class: "faint" }, `+${worker.queues.length - 4}`) : null) },
        { label: "Seen", fit: true, cell: (worker) => when(worker.seen) },
        { label: "Up since", fit: true, rare: true, cell: (worker) => when(worker.started) },
      ],
    });
  }
}

/** What a worker's report counts since its start, over all queues. */
export function total(worker, name) {
  const { report } = worker;
  if (!report) return null;
  return report.total?.[name] ?? Object.values(report.by_queue ?? {}).reduce((sum, each) => sum + each[name], 0);
}

/** One small block for each slot, up to forty. */
export function slots(worker) {
  const { report } = worker;
  const all = report?.slots ?? worker.concurrency;
  const words = report ? `${report.busy} of ${all} busy${report.stuck ? `, ${report.stuck} stuck` : ""}` : `${all} slots`;
  const blocks = all <= 40 ? h("span", { class: "slots", "aria-hidden": "true" }, Array.from({ length: all }, (_, at) => h("i", { class: report && at < report.stuck ? "stuck" : report && at < report.busy ? "busy" : null }))) : null;
  return h("span", { class: "two" }, blocks, h("small", { class: report?.stuck ? "bad" : null }, words));
}
