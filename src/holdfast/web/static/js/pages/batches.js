// Batches: jobs that belong together, and one that runs when all are done. Those that are still open are listed.

import { path } from "../api.js";
import { confirm } from "../dialog.js";
import { h } from "../dom.js";
import { Page } from "../page.js";
import { button, empty, jobLink, meter } from "../parts.js";
import { badge } from "../states.js";
import { table } from "../table.js";
import { count } from "../words.js";

const SIZE = 100;

export class Batches extends Page {
  title = "Batches";
  crumbs = [["Batches", null]];

  load() { return this.api.get("batches", { limit: SIZE }); }

  view() {
    const { batches } = this.data;
    return [
      this.head("Batches", "Those to which jobs may still be added, oldest first. One stays open if the program that filled it has died."),
      h("section", { class: "card", key: "batches" }, batches.length ? this.#table(batches) : empty("batches", "No batch is open", "A closed one is found by the job at its end, which has the id of the batch."),
        batches.length === SIZE ? h("div", { class: "table-foot" }, h("span", null, `The oldest ${SIZE}; there may be more.`)) : null),
    ];
  }

  #table(batches) {
    return table({
      label: "Batches", rows: batches, key: (batch) => batch.id,
      columns: [
        { label: "Batch", whole: true, cell: (batch) => jobLink(batch.id, { main: true }) },
        { label: "Last job", fit: true, rare: true, cell: (batch) => badge(batch.state) },
        { label: "Done", cell: (batch) => progress(batch.total, batch.pending) },
        { label: "Succeeded", num: true, zero: (batch) => !batch.succeeded, cell: (batch) => count(batch.succeeded) },
        { label: "Failed", num: true, zero: (batch) => !batch.failed, cell: (batch) => h("span", { class: batch.failed ? "bad" : null }, count(batch.failed)) },
        { label: "", head: h("span", { class: "unseen" }, "Actions"), fit: true, whole: true, cell: (batch) => h("div", { class: "row-actions" }, batchActions(this, batch.id, { small: true })) },
      ],
    });
  }
}

/** How many of the jobs are done. */
export function progress(total, pending) {
  const done = total - pending;
  return h("span", { class: "nowrap" }, meter(total ? done / total : 0, "good", `${count(done)} of ${count(total)} done`), ` ${count(done)} of ${count(total)}`);
}

/** What can be done with a batch that is open. */
export function batchActions(page, id, options = {}) {
  const reason = page.app.lacks("operate");
  const at = `batches/${path(id)}`;
  const close = async () => {
    if (await confirm({ title: "Close this batch?", words: "No more jobs can be added, and the job at its end runs after the others. Do so if the program that fills it has died.", items: [id], action: "Close the batch" })) {
      await page.act(() => page.api.post(`${at}/close`), "The batch is closed.");
    }
  };
  const cancel = async () => {
    if (await confirm({ title: "Cancel this batch?", words: "Its jobs that are not finished are cancelled, and so is the one at its end; those that run are asked to stop.", items: [id], action: "Cancel the batch", danger: true })) {
      await page.act(() => page.api.post(`${at}/cancel`), "The batch is cancelled.");
    }
  };
  return [
    button("Close batch", { icon: "check", reason, ...options, onclick: close }),
    button("Cancel batch", { icon: "ban", kind: "danger", reason, ...options, onclick: cancel }),
  ];
}
