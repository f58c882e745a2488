// Queues: what waits in each, for how long, and whether it is paused; and limits.

import { path } from "../api.js";
import { confirm, form } from "../dialog.js";
import { h } from "../dom.js";
import { Page } from "../page.js";
import { button, card, empty, href, number, when } from "../parts.js";
import { badge } from "../states.js";
import { table } from "../table.js";
import { allowance, count, many, span } from "../words.js";

export class Queues extends Page {
  title = "Queues";
  crumbs = [["Queues", null]];

  async load() {
    const [{ queues }, { limits }] = await Promise.all([this.api.get("queues"), this.api.get("limits")]);
    return { queues, limits };
  }

  view() {
    return [
      this.head("Queues", "A paused queue keeps its jobs and takes new ones; nothing of it starts. Age is how long the first in line has been due."),
      h("section", { class: "card", key: "queues" }, this.data.queues.length ? this.#table() : empty("queues", "No queue yet", "A queue appears with its first job.")),
      limitsCard(this, this.data.limits),
    ];
  }

  #table() {
    const counted = (label, name, rare = false) => ({ label, num: true, rare, zero: (queue) => !queue.counts[name], cell: (queue) => number(queue.counts[name]) });
    return table({
      label: "Queues", rows: this.data.queues, key: (queue) => queue.name,
      columns: [
        { label: "Queue", whole: true, cell: (queue) => h("a", { class: "main name", href: href("queues", queue.name), title: queue.name }, queue.name) },
        { label: "State", fit: true, cell: (queue) => queue.paused ? h("span", { class: "two" }, badge("paused"), queue.paused_since && h("small", null, when(queue.paused_since))) : badge("open") },
        counted("Queued", "queued"),
        { label: "Age", num: true, zero: (queue) => queue.oldest === null, cell: (queue) => h("span", { class: queue.oldest > 60 ? "warn strong" : null }, queue.oldest === null || queue.oldest === undefined ? "–" : span(queue.oldest)) },
        counted("Held back", "parked"),
        counted("In progress", "in_progress"),
        counted("Later", "scheduled", true),
        counted("Failed", "failed"),
        counted("Completed", "completed", true),
        { label: "Limit", rare: true, cell: (queue) => h("span", { class: "muted" }, queue.limit ? allowance(queue.limit) : "–"), none: (queue) => !queue.limit },
        { label: "", head: h("span", { class: "unseen" }, "Actions"), fit: true, whole: true, cell: (queue) => h("div", { class: "row-actions" }, pauseButton(this, queue)) },
      ],
    });
  }
}

/** Pauses a queue after a question, or lets it go on. */
export function pauseButton(page, queue, options = { small: true }) {
  const reason = page.app.lacks("operate");
  if (queue.paused) {
    return button("Resume", { icon: "play", reason, ...options, onclick: () => page.act(() => page.api.post(`queues/${path(queue.name)}/resume`), `Queue ${queue.name} goes on.`) });
  }
  return button("Pause", {
    icon: "pause", reason, ...options, onclick: async () => {
      const sure = await confirm({ title: `Pause queue ${queue.name}?`, words: `Nothing of it starts until it is resumed. ${many(queue.counts.queued, "job")} due now will wait; what runs goes on.`, action: "Pause it" });
      if (sure) await page.act(() => page.api.post(`queues/${path(queue.name)}/pause`), `Queue ${queue.name} is paused.`);
    },
  });
}

export function limitsCard(page, limits, { queue = null } = {}) {
  const reason = page.app.lacks("operate");
  const body = limits.length ? table({
    label: "Limits", rows: limits, key: (limit) => `${limit.scope}:${limit.name}`,
    columns: [
      { label: "Applies to", whole: true, cell: (limit) => h("span", null, h("span", { class: "faint" }, `${scopeWord(limit.scope)} `), h("span", { class: "strong" }, limit.name)) },
      { label: "Allows", cell: (limit) => allowance(limit) || "–" },
      { label: "Weight", num: true, cell: (limit) => limit.weight },
      { label: "Running", num: true, cell: (limit) => count(limit.running) },
      { label: "Waiting", num: true, cell: (limit) => count(limit.waiting) },
      { label: "State", fit: true, cell: (limit) => (limit.paused ? badge("paused") : badge("open")) },
      { label: "Set", rare: true, cell: (limit) => h("span", { class: "muted" }, limit.declared ? "in code" : "by hand") },
      { label: "", head: h("span", { class: "unseen" }, "Actions"), fit: true, whole: true, cell: (limit) => h("div", { class: "row-actions" },
        button("Change", { small: true, reason, onclick: () => changeLimit(page, limit) }),
        button("Remove", { small: true, kind: "danger", reason, onclick: () => removeLimit(page, limit) })) },
    ],
  }) : empty("filter", "No limits", "Jobs start as soon as a worker has a free slot.");
  const preset = { scope: "queue", name: queue ?? "", concurrency: null, rate: null, per: 1, burst: 1 };
  return card("Limits", body, { flush: true, key: "limits", end: button("Set a limit", { small: true, reason, onclick: () => changeLimit(page, preset, !queue) }) });
}

function scopeWord(scope) { return { each_key: "each key of", queue: "queue", task: "task", key: "key" }[scope] ?? String(scope); }

function changeLimit(page, limit, isNew = false) {
  const fields = [
    ...(isNew ? [{ name: "scope", label: "Applies to", value: "queue", options: [["queue", "Queue"], ["task", "Task"], ["key", "Key"], ["each_key", "Each key of a task"]] }, { name: "name", label: "Name" }] : []),
    { name: "concurrency", label: "Running at once", type: "number", value: limit.concurrency ?? "" },
    { name: "rate", label: "Begun per period", type: "number", value: limit.rate ?? "" },
    { name: "per", label: "Period (s)", type: "number", value: limit.per ?? 1 },
    { name: "burst", label: "At once after a pause", type: "number", value: limit.burst ?? 1 },
  ];
  const send = async (given) => {
    const body = {};
    if (given.concurrency) body.concurrency = Number(given.concurrency);
    if (given.rate) Object.assign(body, { rate: Number(given.rate), per: Number(given.per || 1), burst: Number(given.burst || 1) });
    await page.api.put(`limits/${path(given.scope ?? limit.scope, given.name ?? limit.name)}`, body);
    page.app.toast("The limit holds from the next claim on.");
    page.refresh();
  };
  return form({ title: isNew ? "Set a limit" : `Limit of ${scopeWord(limit.scope)} ${limit.name}`, words: "It goes before what is written in code.", fields, action: "Set", send });
}

async function removeLimit(page, limit) {
  const words = limit.declared ? "It is written in code, so it comes back when a worker starts." : "Jobs start without it from the next claim on.";
  if (await confirm({ title: `Remove the limit of ${scopeWord(limit.scope)} ${limit.name}?`, words, action: "Remove it", danger: true })) {
    await page.act(() => page.api.delete(`limits/${path(limit.scope, limit.name)}`), "The limit is removed.");
  }
}
