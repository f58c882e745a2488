// Locks: who holds each, under which token, for how long, and who waits.

import { h } from "../dom.js";
import { Page } from "../page.js";
import { button, copyable, empty } from "../parts.js";
import { table } from "../table.js";
import { count, span } from "../words.js";

const SIZE = 100;

export class Locks extends Page {
  title = "Locks";
  crumbs = [["Locks", null]];
  interval = 3_000;

  constructor(app, route) {
    super(app, route);
    this.after = route.query.get("after");
  }

  load() { return this.api.get("locks", { limit: SIZE, after: this.after }); }

  nextPage() { if (this.data?.after) this.app.go(`#/locks?after=${encodeURIComponent(this.data.after)}`); }

  view() {
    const { locks, after } = this.data;
    return [
      this.head("Locks", "Each holding has a token that only grows: whoever writes with an older one is refused."),
      h("section", { class: "card", key: "locks" },
        locks.length ? table({
          label: "Locks", rows: locks, key: (lock) => `${lock.partition ?? ""}${lock.name}`,
          columns: [
            { label: "Lock", whole: true, cell: (lock) => h("span", { class: "two" }, h("span", { class: "strong", tabindex: "-1" }, lock.name), lock.internal || lock.name.startsWith("holdfast.") ? h("small", null, "used by Holdfast itself") : null) },
            { label: "Holder", cell: (lock) => h("span", { class: "mono" }, lock.owner) },
            { label: "Token", cell: (lock) => copyable(String(lock.token)) },
            { label: "Lease left", num: true, cell: (lock) => span(lock.left) },
            { label: "Waiters", num: true, zero: (lock) => !lock.waiters, cell: (lock) => h("span", { class: lock.waiters ? "strong" : null }, count(lock.waiters)) },
          ],
        }) : empty("locks", "No lock is held", "Those that your code takes with app.lock appear here while they are held."),
        after || this.after ? h("div", { class: "table-foot" }, h("div", { class: "end" },
          this.after ? h("a", { class: "button small", href: "#/locks" }, "First page") : null,
          button("Next page", { small: true, reason: after ? null : "This is the last page.", onclick: () => this.nextPage() }))) : null),
    ];
  }
}
