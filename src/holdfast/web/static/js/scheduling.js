// The form that makes a schedule: when it is due, and which task it calls.

import { path } from "./api.js";
import { form } from "./dialog.js";
import { argumentsOf, taskField, tasksOf } from "./enqueue.js";
import { href } from "./parts.js";

const KINDS = [["every", "Every so many seconds"], ["cron", "By a cron expression"], ["at", "Once, at a time"]];
const MISFIRES = [["once", "Fire once for all"], ["skip", "Leave them out"], ["all", "Fire each"]];
const OVERLAPS = [["skip", "Leave it out"], ["allow", "Run beside it"], ["queue", "Run after it"]];

export async function scheduleForm(page) {
  const tasks = await tasksOf(page);
  if (!tasks) return;
  const send = async (given) => {
    const body = { recurrence: recurrence(given), call: { task: given.task, arguments: argumentsOf(given) }, misfire: given.misfire, overlap: given.overlap, version: 0 };
    if (given.queue) body.call.queue = given.queue;
    await page.api.put(`schedules/${path(need(given, "name", "Give it a name."))}`, body);
    page.app.toast("The schedule is stored.");
    page.app.go(href("schedules", given.name));
  };
  await form({
    title: "New schedule", action: "Store it", send, words: "One that is there already stays as it is.",
    fields: [
      { name: "name", label: "Name", whole: true, placeholder: "nightly-report" },
      { name: "kind", label: "Due", value: "every", options: KINDS },
      { name: "tz", label: "Time zone of the expression", placeholder: "UTC" },
      { name: "when", label: "When", whole: true, hint: "Seconds such as 600, an expression such as 0 3 * * *, or an instant such as 2030-01-31T09:00Z." },
      { ...taskField(tasks), whole: false },
      { name: "queue", label: "Queue", placeholder: "the task's own" },
      { name: "arguments", label: "Arguments (JSON)", type: "area", value: "{}", whole: true },
      { name: "misfire", label: "Times that were missed", value: "once", options: MISFIRES },
      { name: "overlap", label: "Due while a run is live", value: "skip", options: OVERLAPS },
    ],
  });
}

function recurrence(given) {
  const when = need(given, "when", "Say when it is due.");
  if (given.kind === "cron") return { kind: "cron", expression: when, tz: given.tz || "UTC" };
  if (given.kind === "every") return { kind: "every", seconds: numberOf(when) };
  return { kind: "at", at: instantOf(when) };
}

function numberOf(text) {
  const seconds = Number(text);
  if (!Number.isFinite(seconds)) throw refusal("when", "Give the interval in seconds.");
  return seconds;
}

function instantOf(text) {
  const instant = new Date(text);
  if (Number.isNaN(instant.getTime())) throw refusal("when", "Give an instant such as 2030-01-31T09:00Z.");
  return instant.toISOString();
}

function need(given, name, words) {
  if (!given[name]) throw refusal(name, words);
  return given[name];
}

function refusal(field, words) { return Object.assign(new Error(words), { field }); }
