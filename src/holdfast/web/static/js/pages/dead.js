// Dead letters: jobs that used up their attempts, grouped by what went wrong.

import { confirm } from "../dialog.js";
import { h } from "../dom.js";
import { Page } from "../page.js";
import { button, empty, href, jobLink, jobsHref, queueLink, when } from "../parts.js";
import { count, many } from "../words.js";

export class Dead extends Page {
  title = "Dead letters";
  crumbs = [["Dead letters", null]];
  interval = 10_000;

  constructor(app, route) {
    super(app, route);
    this.filters = { queue: route.query.get("queue") ?? "", task: route.query.get("task") ?? "" };
  }

  load() { return this.api.get("dlq/groups", this.filters); }

  view() {
    const { groups, looked_at: seen, more } = this.data;
    const set = (name) => (event) => this.app.go(`#/dead?${new URLSearchParams({ ...this.filters, [name]: event.target.value.trim() })}`);
    const active = this.filters.queue || this.filters.task;
    return [
      this.head("Dead letters", "Jobs whose attempts are used up. They stay until they are replayed or discarded.", h("a", { class: "button", href: jobsHref({ state: "dlq", ...this.filters }) }, "As a list")),
      h("div", { class: "filters", key: "filters", role: "search", "aria-label": "Filters" },
        ["queue", "task"].map((name) => h("input", { class: "input", type: "search", key: name, name, value: this.filters[name], placeholder: name === "queue" ? "Queue" : "Task", "aria-label": name, autocomplete: "off", onchange: set(name) })),
        active ? h("a", { class: "button plain", href: "#/dead" }, "Clear") : null),
      h("section", { class: "card", key: "groups", "aria-label": "Groups" },
        groups.length ? h("ul", null, groups.map((group) => this.#group(group))) : empty("check", active ? "No dead letter fits" : "No dead letters", active ? null : "Every job found its end otherwise."),
        groups.length ? h("div", { class: "table-foot" }, h("span", null, more ? `Grouped from the newest ${count(seen)}; there are more.` : `Grouped from all ${count(seen)}.`)) : null),
    ];
  }

  #group(group) {
    const filters = { state: "dlq", task: group.task, queue: group.queue };
    return h("li", { class: "group", key: id(group), "data-row": id(group) },
      h("div", { class: "what" },
        h("a", { class: "main error", href: href("jobs", group.ids[0]) }, group.error || group.reason || "no error was recorded"),
        group.reason && group.error && group.reason !== group.error ? h("div", { class: "muted" }, group.reason) : null,
        h("div", { class: "meta" },
          h("span", null, h("span", { class: "faint" }, "task "), h("a", { href: jobsHref({ state: "dlq", task: group.task }) }, group.task)),
          h("span", null, h("span", { class: "faint" }, "queue "), queueLink(group.queue)),
          h("span", null, h("span", { class: "faint" }, "newest "), when(group.newest)),
          group.count > 1 ? h("span", null, h("span", { class: "faint" }, "oldest "), when(group.oldest)) : null),
        h("div", { class: "meta" }, group.ids.slice(0, 5).map((each) => jobLink(each)), group.count > group.ids.length ? h("a", { href: jobsHref(filters) }, `and ${count(group.count - group.ids.length)} more`) : null)),
      h("div", null,
        h("div", { class: "many" }, count(group.count)),
        h("div", { class: "acts" },
          button("Replay", { small: true, icon: "retry", reason: this.app.lacks("operate"), onclick: () => this.#all(group, "replay") }),
          button("Discard", { small: true, icon: "trash", kind: "danger", reason: this.app.lacks("admin"), onclick: () => this.#all(group, "discard") }))));
  }

  async #all(group, verb) {
    const isReplay = verb === "replay";
    const sure = await confirm({
      title: `${isReplay ? "Replay" : "Discard"} ${many(group.count, "job")}?`,
      words: isReplay ? "Each gets all its attempts again. If the cause is not mended they will come back here." : "They are deleted with their history. This cannot be taken back.",
      items: [group.error || group.reason || "", `task ${group.task}, queue ${group.queue}`], action: `${isReplay ? "Replay" : "Discard"} ${count(group.count)}`, danger: !isReplay,
    });
    if (!sure) return;
    const { task, queue, reason, error } = group;
    const body = group.count <= group.ids.length ? { ids: group.ids } : { task, queue, reason, error };
    await this.act(() => this.api.post(`dlq/${verb}`, body), (answer) => `${many(answer?.done ?? answer?.[isReplay ? "replayed" : "discarded"] ?? group.count, "job")} ${isReplay ? "put back to work" : "discarded"}${answer?.more ? "; there are more" : ""}.`);
  }
}

function id(group) { return [group.task, group.queue, group.reason, group.error].join("\n"); }
