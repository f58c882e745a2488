// A list of jobs, as several pages show it.

import { h } from "./dom.js";
import { href, number, tags, when, workerLink } from "./parts.js";
import { badge, LEASED, WAITING } from "./states.js";
import { table } from "./table.js";
import { shortId } from "./words.js";

/** What the time of a job is that matters in its state. */
function moment(job) {
  if (WAITING.has(job.state)) return ["due ", job.due];
  if (LEASED.has(job.state)) return job.started ? ["started ", job.started] : ["due ", job.due];
  return ["finished ", job.finished];
}

const COLUMNS = [
  { label: "Job", whole: true, cell: (job) => h("span", { class: "two" }, h("a", { class: "main name", href: href("jobs", job.id), title: job.id }, job.task), h("small", { class: "mono" }, shortId(job.id))) },
  { label: "State", fit: true, cell: (job) => badge(job.state, job.cancel_asked && LEASED.has(job.state) ? `${job.state}, asked to stop` : job.state) },
  { label: "Queue", cell: (job) => h("a", { class: "name", href: href("queues", job.queue) }, job.queue) },
  { label: "Time", fit: true, cell: (job) => { const [word, at] = moment(job); return h("span", null, h("span", { class: "faint" }, word), when(at)); } },
  { label: "Runs", num: true, rare: true, cell: (job) => h("span", { title: `${job.failures} failed, ${job.lost} lost` }, number(job.run)) },
  { label: "Worker", none: (job) => !job.worker, cell: (job) => workerLink(job.worker) },
  { label: "Note", free: true, none: (job) => !job.reason && !job.parked && !job.tags?.length, cell: (job) => job.reason || job.parked ? h("span", { class: "clip-2 muted", title: job.reason ?? job.parked }, job.reason ?? `held back by ${job.parked}`) : tags(job.tags) },
];

/** `pick` is `{has(job), toggle(job), all(), state}` when rows can be selected. */
export function jobRows(jobs, { pick = null, dim = () => false, hide = [] } = {}) {
  const box = pick && {
    label: "", pick: true, fit: true,
    head: h("input", { type: "checkbox", "aria-label": "Select all on this page", checked: pick.state === "all", indeterminate: pick.state === "some", onchange: pick.all }),
    cell: (job) => h("input", { type: "checkbox", "aria-label": `Select job ${job.id}`, checked: pick.has(job), onchange: () => pick.toggle(job) }),
  };
  return table({
    label: "Jobs", rows: jobs, key: (job) => job.id, dim, selected: (job) => pick?.has(job) ?? false,
    columns: [...(box ? [box] : []), ...COLUMNS.filter((column) => !hide.includes(column.label))],
  });
}

