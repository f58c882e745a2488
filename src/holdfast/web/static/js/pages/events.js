// Events: what happened, who consumes it, how far they have come, and what holds them up.

import { path } from "../api.js";
import { confirm } from "../dialog.js";
import { h } from "../dom.js";
import { Page } from "../page.js";
import { button, card, code, copyable, empty, when } from "../parts.js";
import { badge } from "../states.js";
import { table } from "../table.js";
import { count, many, shortId } from "../words.js";

const SIZE = 50;

export class Events extends Page {
  title = "Events";
  crumbs = [["Events", null]];

  constructor(app, route) {
    super(app, route);
    this.filters = Object.fromEntries(["topic", "aggregate", "after"].map((name) => [name, route.query.get(name) ?? ""]));
  }

  async load() {
    const [{ groups }, { events, after }] = await Promise.all([this.api.get("groups"), this.api.get("events", { ...this.filters, limit: SIZE })]);
    return { groups, events, after };
  }

  #href(changes) {
    return `#/events?${new URLSearchParams(Object.entries({ ...this.filters, ...changes }).filter(([, value]) => value))}`;
  }

  /** The position behind which the next page begins; null when there is none. */
  get #next() { return this.filters.after && this.data?.events.length === SIZE ? this.data.after : null; }

  nextPage() { if (this.#next) this.app.go(this.#href({ after: this.#next })); }

  view() {
    const { groups } = this.data;
    const stuck = groups.flatMap((group) => group.waiting.map((each) => ({ ...each, group: group.group, topic: group.topic })));
    return [
      this.head("Events", "Events of one aggregate are told in order. One that fails holds up only what follows of its own aggregate."),
      card("Consumer groups", groups.length ? this.#groups(groups) : empty("events", "No group has consumed yet", "A handler declared with @app.on(topic, group=…) makes one."), { flush: true, key: "groups" }),
      stuck.length ? card("Waiting", this.#waiting(stuck), { flush: true, key: "waiting", lead: many(stuck.length, "event") }) : null,
      this.#events(),
    ];
  }

  #groups(groups) {
    return table({
      label: "Consumer groups", rows: groups, key: (each) => `${each.group} ${each.topic} ${each.partition ?? ""}`,
      columns: [
        { label: "Group", whole: true, cell: (each) => h("span", { class: "two" }, h("span", { class: "strong" }, each.group), each.partition ? h("small", null, `partition ${each.partition}`) : null) },
        { label: "Topic", cell: (each) => h("a", { href: this.#href({ topic: each.topic, aggregate: "", after: "" }) }, each.topic) },
        { label: "Passed", num: true, cell: (each) => count(each.offset) },
        { label: "Behind", num: true, zero: (each) => !each.behind, cell: (each) => h("span", { class: each.behind > 100 ? "warn strong" : null, title: "At most: events of other topics in between are counted too" }, count(each.behind)) },
        { label: "Waiting", num: true, zero: (each) => !each.waiting.length, cell: (each) => count(each.waiting.filter((event) => event.retry_at).length) },
        { label: "Parked", num: true, zero: (each) => each.waiting.every((event) => event.retry_at), cell: (each) => { const parked = each.waiting.filter((event) => !event.retry_at).length; return h("span", { class: parked ? "bad strong" : null }, count(parked)); } },
      ],
    });
  }

  #waiting(stuck) {
    const reason = this.app.lacks("operate");
    return table({
      label: "Waiting events", rows: stuck, key: (each) => `${each.group} ${each.topic} ${each.event}`,
      columns: [
        { label: "Event", whole: true, cell: (each) => h("span", { class: "two" }, h("span", { class: "strong" }, each.aggregate ?? "no aggregate"), h("small", null, `${each.group} · ${each.topic} · position ${count(each.position)}`)) },
        { label: "State", fit: true, cell: (each) => badge(each.skip ? "skipping" : each.retry_at ? "retry" : "parked") },
        { label: "Tried", num: true, cell: (each) => count(each.failures) },
        { label: "Next", fit: true, cell: (each) => when(each.retry_at, "when replayed") },
        { label: "Since", fit: true, cell: (each) => when(each.since) },
        { label: "Reason", free: true, whole: true, cell: (each) => h("span", { class: "clip-2 muted", title: each.reason }, each.reason) },
        { label: "", head: h("span", { class: "unseen" }, "Actions"), fit: true, whole: true, cell: (each) => h("div", { class: "row-actions" },
          button("Replay", { small: true, icon: "retry", reason, onclick: () => this.#steer(each, "replay") }),
          button("Skip", { small: true, icon: "skip", kind: "danger", reason, onclick: () => this.#steer(each, "skip") })) },
      ],
    });
  }

  async #steer(each, verb) {
    if (verb === "skip" && !await confirm({ title: "Leave this event out?", words: `Group ${each.group} will never handle it; what follows of ${each.aggregate ?? "it"} goes on.`, action: "Skip it", danger: true })) return;
    const body = { event: each.event, aggregate: each.aggregate ?? undefined };
    await this.act(() => this.api.post(`groups/${path(each.group, each.topic)}/${verb}`, body), verb === "skip" ? "The event is left out." : "The event is tried again.");
  }

  #events() {
    const isNewest = !this.filters.after;
    const events = isNewest ? [...this.data.events].reverse() : this.data.events;
    const set = (name) => (event) => this.app.go(this.#href({ [name]: event.target.value.trim(), after: "" }));
    const filter = (name, label) => h("input", { class: "input", type: "search", key: name, name, value: this.filters[name], placeholder: label, "aria-label": name, autocomplete: "off", onchange: set(name) });
    const body = [
      events.length ? table({
        label: "Events", rows: events, key: (event) => event.id,
        columns: [
          { label: "Event", whole: true, cell: (event) => h("span", { class: "two" }, h("span", { class: "strong" }, event.type), h("small", null, copyable(event.id, shortId(event.id)))) },
          { label: "Topic", cell: (event) => h("a", { href: this.#href({ topic: event.topic, after: "" }) }, event.topic) },
          { label: "Aggregate", none: (event) => !event.aggregate, cell: (event) => event.aggregate ? h("a", { href: this.#href({ topic: event.topic, aggregate: event.aggregate, after: "" }) }, event.aggregate) : "–" },
          { label: "Position", num: true, cell: (event) => count(event.position) },
          { label: "Recorded", fit: true, cell: (event) => when(event.at) },
          { label: "Data", whole: true, cell: (event) => h("details", null, h("summary", null, "Show"), code(event.data)) },
        ],
      }) : empty("events", "No events here", this.filters.after ? "There are none behind this position." : "Those that your code emits appear here."),
      h("div", { class: "table-foot" },
        h("span", null, isNewest ? "The newest events, newest first." : "In their order."),
        h("div", { class: "end" },
          isNewest ? h("a", { class: "button small", href: this.#href({ after: "0" }) }, "From the beginning") : h("a", { class: "button small", href: this.#href({ after: "" }) }, "Newest"),
          isNewest ? null : button("Next page", { small: true, title: "n", reason: this.#next ? null : "This is the last page.", onclick: () => this.nextPage() }))),
    ];
    return card("Events", body, { flush: true, key: "events", end: h("div", { class: "filters" }, filter("topic", "Topic"), this.filters.topic ? filter("aggregate", "Aggregate") : null) });
  }
}

