// Keyboard shortcuts, and the overlay that tells them.

import { show } from "./dialog.js";
import { h } from "./dom.js";
import { moveRow, tickRow } from "./table.js";

export const PLACES = [
  ["o", "", "Overview", "overview"],
  ["j", "jobs", "Jobs", "jobs"],
  ["q", "queues", "Queues", "queues"],
  ["d", "dead", "Dead letters", "dead"],
  ["w", "workers", "Workers", "workers"],
  ["s", "schedules", "Schedules", "schedules"],
  ["b", "batches", "Batches", "batches"],
  ["l", "locks", "Locks", "locks"],
  ["e", "events", "Events", "events"],
];

const HELP = [
  ["Everywhere", [["/", "Search, or open a job by its id"], ["?", "This help"], ["r", "Ask again now"], ["t", "Theme: auto, light, dark"], ["Esc", "Close, or take back"]]],
  ["Lists", [["j", "Next row"], ["k", "Row before"], ["Enter", "Open it"], ["x", "Select it"], ["n", "Next page"]]],
  ["Charts", [["←", "Back in time"], ["→", "Forward"]]],
  ["Go to", PLACES.map(([key, , name]) => [`g ${key}`, name])],
];

export class Keys {
  constructor(app) {
    this.app = app;
    this.went = 0;
    document.addEventListener("keydown", (event) => this.#press(event));
  }

  #press(event) {
    if (event.metaKey && event.key === "k" || event.ctrlKey && event.key === "k") { event.preventDefault(); this.app.search(); return; }
    if (event.ctrlKey || event.metaKey || event.altKey || !this.app.session) return;
    if (event.target.closest("input:not([type=checkbox]), textarea, select, dialog")) return;
    const action = Date.now() - this.went < 1200 ? this.#place(event.key) : this.#action(event.key);
    this.went = event.key === "g" && !action ? Date.now() : 0;
    if (!action) return;
    event.preventDefault();
    action();
  }

  #place(key) {
    const found = PLACES.find(([each]) => each === key);
    return found && (() => this.app.go(`#/${found[1]}`));
  }

  #action(key) {
    return {
      "/": () => this.app.search(),
      "?": () => help(),
      r: () => this.app.page?.refresh(),
      t: () => this.app.turnTheme(),
      j: () => moveRow(1),
      k: () => moveRow(-1),
      x: () => tickRow(),
      n: () => this.app.page?.nextPage?.(),
      Escape: () => this.app.back(),
    }[key];
  }
}

export function help() {
  return show("help", "Keyboard shortcuts", (close) => [
    h("div", { class: "inside" },
      h("h2", null, "Keyboard shortcuts"),
      h("div", { class: "shortcuts" }, HELP.map(([title, keys]) => h("section", null, h("h3", null, title),
        h("ul", null, keys.map(([key, words]) => h("li", null, h("span", null, words), h("span", { class: "keys" }, key.split(" ").map((each, at) => [at ? " " : null, h("kbd", null, each)])))))))) ),
    h("div", { class: "ends" }, h("button", { class: "button", type: "button", autofocus: true, onclick: () => close() }, "Close")),
  ]);
}
