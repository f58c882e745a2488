// Who leads: one line, as several pages show it.

import { h } from "./dom.js";
import { icon } from "./icons.js";
import { workerLink } from "./parts.js";
import { span } from "./words.js";

/** `partitions` are the leaders by partition, where there are several. */
export function leaderLine(leader, partitions = {}) {
  const several = Object.entries(partitions ?? {});
  const lines = several.length ? several.map(([name, each]) => line(each, name)) : [line(leader, null)];
  return h("section", { class: "card leader", key: "leader", "aria-label": "Leader" }, lines);
}

function line(leader, partition) {
  const whose = partition ? `Leader of ${partition}` : "Leader";
  if (!leader) return h("p", { key: whose }, icon("crown"), h("span", { class: "strong" }, whose), h("span", { class: "warn" }, "nobody, so no schedule fires. Any live worker takes over by itself."));
  return h("p", { key: whose }, icon("crown"), h("span", { class: "strong" }, whose), workerLink(leader.worker),
    h("span", null, h("span", { class: "faint" }, "term "), h("span", { class: "mono" }, leader.term)),
    h("span", null, h("span", { class: "faint" }, "lease ends in "), span(leader.left), h("span", { class: "faint" }, " unless renewed")));
}
