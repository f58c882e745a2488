// An address that leads nowhere.

import { empty } from "../parts.js";
import { h } from "../dom.js";
import { Page } from "../page.js";

export class Missing extends Page {
  title = "Not found";
  crumbs = [["Not found", null]];
  interval = 0;

  view() {
    return h("section", { class: "card" }, empty("search", "There is no such page", "The address may have been cut off on its way here.", h("a", { class: "button", href: "#/" }, "Overview")));
  }
}
