// One schedule: its rule, and when it fires next.

import { path } from "../api.js";
import { confirm } from "../dialog.js";
import { h } from "../dom.js";
import { Page } from "../page.js";
import { button, card, empty, facts, jobLink, jobsHref, queueLink, when } from "../parts.js";
import { badge } from "../states.js";
import { absolute, count, dayTime, recurrence, span } from "../words.js";
import { scheduleActions, scheduleState } from "./schedules.js";

export class SchedulePage extends Page {
  constructor(app, route) {
    super(app, route);
    this.name = route.path[1];
    this.title = `Schedule ${this.name}`;
    this.crumbs = [["Schedules", "#/schedules"], [this.name, null]];
  }

  async load() {
    try {
      return await this.api.get(`schedules/${path(this.name)}`);
    } catch (error) {
      if (error.status === 404) return { schedule: null };
      throw error;
    }
  }

  view() {
    const { schedule, next } = this.data;
    if (!schedule) return h("section", { class: "card" }, empty("schedules", `There is no schedule ${this.name}`, null, h("a", { class: "button", href: "#/schedules" }, "All schedules")));
    return [
      this.head(h("span", null, schedule.name, " ", badge(scheduleState(schedule))), recurrence(schedule.recurrence), [
        ...scheduleActions(this, schedule),
        button("Remove", { icon: "trash", kind: "danger", reason: this.app.lacks("admin"), onclick: () => this.#remove(schedule) }),
      ]),
      h("div", { class: "pair", key: "pair" },
        card("Next firings", next?.length
          ? [schedule.paused ? h("p", { class: "warn" }, "It is paused: these would be its times if it were resumed now.") : null, h("ol", { class: "dues" }, next.map((due) => h("li", { key: due }, h("span", { title: absolute(due) }, dayTime(due)), h("span", { class: "muted" }, when(due)))))]
          : empty("schedules", "Nothing to come", schedule.running ? "The next time follows its run." : "It has nothing more to fire."), { lead: "in your time zone" }),
        card("Details", facts([
          ["Fires", schedule.task ? h("a", { href: jobsHref({ task: schedule.task }) }, schedule.task) : `an event in ${schedule.topic}`],
          ["Queue", schedule.queue ? queueLink(schedule.queue) : null],
          ["Last due", when(schedule.last_due, "never")],
          ["Last job", schedule.job ? jobLink(schedule.job) : null],
          ["Missed times", `${count(schedule.missed)} (then: ${schedule.misfire})`],
          ["Overlaps", `${count(schedule.skipped)} skipped (rule: ${schedule.overlap})`],
          ["Jitter", schedule.jitter ? span(schedule.jitter) : null],
          ["Version", String(schedule.version)],
          ["Partition", schedule.partition],
        ]))),
    ];
  }

  async #remove(schedule) {
    if (!await confirm({ title: `Remove schedule ${schedule.name}?`, words: "One that is declared in code is stored again when a worker starts.", action: "Remove it", danger: true })) return;
    try {
      await this.api.delete(`schedules/${path(schedule.name)}`);
      this.app.toast("The schedule is removed.");
      this.app.go("#/schedules");
    } catch (error) {
      this.app.toast(error.message, "bad");
    }
  }
}
