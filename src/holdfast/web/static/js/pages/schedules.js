// Schedules: what recurs, when it fires next, and who fires it.

import { path } from "../api.js";
import { confirm } from "../dialog.js";
import { h } from "../dom.js";
import { leaderLine } from "../leader.js";
import { Page } from "../page.js";
import { button, empty, href, jobLink, when } from "../parts.js";
import { scheduleForm } from "../scheduling.js";
import { badge } from "../states.js";
import { table } from "../table.js";
import { count, recurrence } from "../words.js";

const SIZE = 100;

export class Schedules extends Page {
  title = "Schedules";
  crumbs = [["Schedules", null]];

  constructor(app, route) {
    super(app, route);
    this.after = route.query.get("after");
  }

  async load() {
    const [{ schedules, after }, { leader, partitions }] = await Promise.all([this.api.get("schedules", { limit: SIZE, after: this.after }), this.api.get("leader")]);
    return { schedules, after, leader, partitions };
  }

  nextPage() { if (this.data?.after) this.app.go(`#/schedules?after=${encodeURIComponent(this.data.after)}`); }

  view() {
    const { schedules, after, leader, partitions } = this.data;
    return [
      this.head("Schedules", "Each due time fires once, whoever leads.", [
        button("New schedule", { icon: "schedules", reason: this.app.lacks("operate"), onclick: () => scheduleForm(this) }),
      ]),
      leaderLine(leader, partitions),
      h("section", { class: "card", key: "schedules" },
        schedules.length ? this.#table(schedules) : empty("schedules", "No schedules", "Declare one in code with @app.schedule(every(minutes=10)), or store one with the button above."),
        after || this.after ? h("div", { class: "table-foot" }, h("div", { class: "end" },
          this.after ? h("a", { class: "button small", href: "#/schedules" }, "First page") : null,
          button("Next page", { small: true, reason: after ? null : "This is the last page.", onclick: () => this.nextPage() }))) : null),
    ];
  }

  #table(schedules) {
    return table({
      label: "Schedules", rows: schedules, key: (each) => each.name,
      columns: [
        { label: "Schedule", whole: true, cell: (each) => h("span", { class: "two" }, h("a", { class: "main name", title: each.name, href: href("schedules", each.name) }, each.name), h("small", null, each.task ? `task ${each.task}` : `event in ${each.topic}`)) },
        { label: "State", fit: true, cell: (each) => badge(scheduleState(each)) },
        { label: "When", cell: (each) => h("span", { class: each.recurrence?.kind === "cron" ? "mono" : null }, recurrence(each.recurrence)) },
        { label: "Next", fit: true, cell: (each) => when(each.next_due, each.running ? "after this run" : "–") },
        { label: "Last", fit: true, rare: true, cell: (each) => when(each.last_due, "never") },
        { label: "Last job", fit: true, rare: true, none: (each) => !each.job, cell: (each) => (each.job ? jobLink(each.job) : "–") },
        { label: "Missed", num: true, zero: (each) => !each.missed, cell: (each) => h("span", { class: each.missed ? "warn" : null, title: "Due times that passed while nobody was there to fire" }, count(each.missed)) },
        { label: "Skipped", num: true, rare: true, zero: (each) => !each.skipped, cell: (each) => h("span", { title: "Due times left out because a run was under way" }, count(each.skipped)) },
        { label: "", head: h("span", { class: "unseen" }, "Actions"), fit: true, whole: true, cell: (each) => h("div", { class: "row-actions" }, scheduleActions(this, each, { small: true })) },
      ],
    });
  }
}

export function scheduleState(each) {
  if (each.paused) return "paused";
  if (each.running) return "running";
  return each.next_due ? "active" : "ended";
}

export function scheduleActions(page, each, options = {}) {
  const reason = page.app.lacks("operate");
  const at = `schedules/${path(each.name)}`;
  const runNow = async () => {
    if (await confirm({ title: `Run ${each.name} now?`, words: "It fires once more, beside its due times.", action: "Run it now" })) {
      await page.act(() => page.api.post(`${at}/run`), "It was fired.");
    }
  };
  return [
    button("Run now", { icon: "play", reason, ...options, onclick: runNow }),
    each.paused
      ? button("Resume", { icon: "play", reason, ...options, onclick: () => page.act(() => page.api.post(`${at}/resume`), `Schedule ${each.name} fires again.`) })
      : button("Pause", { icon: "pause", reason, ...options, onclick: () => page.act(() => page.api.post(`${at}/pause`), `Schedule ${each.name} is paused.`) }),
  ];
}
