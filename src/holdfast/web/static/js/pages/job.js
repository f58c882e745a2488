// One job: why it stands where it stands, every attempt, what it was given, and what can be done.

import { path } from "../api.js";
import { confirm, form } from "../dialog.js";
import { h } from "../dom.js";
import { icon } from "../icons.js";
import { Page } from "../page.js";
import { bones, button, card, code, copyable, empty, facts, queueLink, tags, when, workerLink } from "../parts.js";
import { badge, LEASED, obstacle, sign, tone, WAITING } from "../states.js";
import { strip } from "../strip.js";
import { clockTime, dayTime, shortId, span } from "../words.js";
import { batchActions, progress } from "./batches.js";

const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d/;
const SHOWN_ALREADY = new Set(["id", "stored", "task", "queue", "state", "run", "failures", "lost", "reason"]);

export class JobPage extends Page {
  constructor(app, route) {
    super(app, route);
    this.id = route.path[1];
    this.jobs = [this.id];
    this.title = "Job";
    this.crumbs = [["Jobs", "#/jobs"], [shortId(this.id), null]];
    this.revealed = null;
    this.hear("job", (job) => { if (job.id === this.id && job.version !== this.data?.job.version) this.refresh(); });
  }

  async load() {
    try {
      const data = await this.api.get(`jobs/${path(this.id)}`);
      this.title = data.job.task;
      document.title = `${data.job.task} · Holdfast`;
      return data;
    } catch (error) {
      if (error.status === 404) return { gone: true };
      throw error;
    }
  }

  bones() { return [h("section", { class: "card" }, bones(2)), h("section", { class: "card" }, bones(8))]; }

  view() {
    if (this.data.gone) {
      return h("section", { class: "card" }, empty("search", "No such job is stored", "It was never there, was deleted, or retention removed it.", h("a", { class: "button", href: "#/jobs" }, "All jobs")));
    }
    const { job } = this.data;
    return [
      this.#top(job),
      this.#why(job),
      h("div", { class: "pair", key: "pair" },
        h("div", { class: "stack" }, this.#timeline(job), this.#payload("Arguments", "arguments"), this.#result(job)),
        this.#details(job)),
    ];
  }

  #top(job) {
    const { app } = this;
    const able = (action, role) => app.lacks(role) ?? obstacle(action, job);
    return this.head(
      h("span", null, job.task, " ", badge(job.state, job.cancel_asked && LEASED.has(job.state) ? `${job.state}, asked to stop` : job.state)),
      copyable(job.id), [
        button("Cancel", { icon: "ban", reason: able("cancel", "operate"), onclick: () => this.#cancel(job) }),
        button("Replay", { icon: "retry", reason: able("replay", "operate"), onclick: () => this.#replay(job) }),
        button("Edit", { icon: "edit", reason: able("edit", "operate"), onclick: () => this.#edit(job) }),
        button("Delete", { icon: "trash", kind: "danger", reason: able("delete", "admin"), onclick: () => this.#delete(job) }),
        this.data.flow?.is_open ? batchActions(this, job.id) : null,
      ]);
  }

  #why(job) {
    const { sentence, facts: known } = this.data.explanation;
    const evidence = Object.entries(known ?? {}).filter(([name, value]) => !SHOWN_ALREADY.has(name) && value !== null && value !== "");
    const question = WAITING.has(job.state) ? "Why is it not running?" : LEASED.has(job.state) ? "Where does it stand?" : "What became of it?";
    return h("section", { class: ["card", "why", tone(job.state)], key: "why", "aria-label": question, "aria-live": "polite" },
      h("h2", null, question),
      h("p", { class: "sentence" }, sentence),
      (job.progress ?? null) === null || job.state === "success" ? null : h("div", null, h("span", { class: "muted" }, `${Math.round(job.progress * 100)} % ${job.progress_note ?? ""}`), h("div", null, h("span", { class: ["meter", "wide", "tone-busy"], role: "progressbar", "aria-valuenow": Math.round(job.progress * 100), "aria-valuemin": "0", "aria-valuemax": "100", "aria-label": "Progress", vars: { "--part": `${Math.round(job.progress * 100)}%` } }, h("i")))),
      evidence.length ? h("details", null, h("summary", null, "Evidence"), h("div", { class: "evidence" }, facts(evidence.map(([name, value]) => [name.replaceAll("_", " "), shown(value)])))) : null);
  }

  #timeline(job) {
    const attempts = this.data.attempts;
    const items = [...attempts].reverse().map((each) => this.#attempt(each));
    if (job.worker && LEASED.has(job.state)) items.unshift(this.#current(job));
    const lead = items.length ? `${items.length} ${items.length === 1 ? "attempt" : "attempts"}, newest first` : null;
    return card("Timeline", [
      items.length ? strip(job, attempts) : null,
      items.length ? h("ol", { class: "attempts" }, items) : null,
      h("p", { class: "hint" }, "Created ", when(job.created), WAITING.has(job.state) ? [", due ", when(job.due)] : null, items.length ? "." : ". No attempt has begun."),
    ], { lead });
  }

  #attempt(each) {
    const lasted = each.started ? span((Date.parse(each.finished) - Date.parse(each.started)) / 1000) : null;
    return h("li", { class: ["attempt", tone(each.outcome)], key: `${each.run}-${each.token}` },
      h("div", { class: "rail" }, h("span", { class: "knob" }, icon(sign(each.outcome)[0]))),
      h("div", { class: "told" },
        h("div", { class: "head" }, h("span", { class: "strong" }, `Attempt ${each.run}`), badge(each.outcome), lasted ? h("span", { class: "muted" }, `ran ${lasted}`) : h("span", { class: "muted" }, "never started"), h("span", { class: "when" }, when(each.finished))),
        each.reason ? h("p", null, each.reason) : null,
        h("div", { class: "meta" },
          h("span", null, h("span", { class: "k" }, "worker "), workerLink(each.worker)),
          h("span", null, h("span", { class: "k" }, "token "), h("span", { class: "mono" }, each.token)),
          each.started ? h("span", null, h("span", { class: "k" }, "from "), `${dayTime(each.started)} to ${clockTime(each.finished)}`) : null),
        each.error ? h("details", { key: "error" }, h("summary", null, each.reason && lastLine(each.error).includes(each.reason) ? "Traceback" : lastLine(each.error)), code(each.error)) : null));
  }

  #current(job) {
    const until = this.data.explanation.facts?.lease_until ?? this.data.job.lease_until;
    return h("li", { class: ["attempt", "tone-busy"], key: `${job.run}-now` },
      h("div", { class: "rail" }, h("span", { class: "knob" }, icon(sign(job.state)[0]))),
      h("div", { class: "told" },
        h("div", { class: "head" }, h("span", { class: "strong" }, `Attempt ${job.run}`), badge(job.state), job.started ? h("span", { class: "when" }, "started ", when(job.started)) : null),
        h("div", { class: "meta" },
          h("span", null, h("span", { class: "k" }, "worker "), workerLink(job.worker)),
          h("span", null, h("span", { class: "k" }, "token "), h("span", { class: "mono" }, job.token)),
          until ? h("span", null, h("span", { class: "k" }, "lease ends "), when(until)) : null)));
  }

  #payload(title, name) {
    const value = this.revealed ? this.revealed[name] : this.data[name];
    const reveal = button("Reveal", { small: true, icon: "eye", reason: this.app.lacks("admin"), title: "Shows what is masked. It is written to the audit log.", onclick: () => this.#reveal() });
    return card(title, code(value), { end: this.revealed ? h("span", { class: "warn" }, "unmasked") : name === "arguments" ? reveal : null, key: name });
  }

  #result(job) {
    const value = this.revealed ? this.revealed.result : this.data.result;
    return job.state === "success" && value !== null && value !== undefined ? this.#payload("Result", "result") : null;
  }

  #details(job) {
    const flow = this.data.flow ?? {};
    return card("Details", facts([
      ["Queue", queueLink(job.queue)],
      ["Priority", String(job.priority)],
      ["Due", h("span", null, when(job.due), h("span", { class: "faint" }, ` ${dayTime(job.due)}`))],
      ["Created", h("span", null, when(job.created), h("span", { class: "faint" }, ` ${dayTime(job.created)}`))],
      ["Started", job.started ? h("span", null, when(job.started), h("span", { class: "faint" }, ` ${dayTime(job.started)}`)) : null],
      ["Finished", job.finished ? h("span", null, when(job.finished), h("span", { class: "faint" }, ` ${dayTime(job.finished)}`)) : null],
      ["Took", job.started && job.finished ? span((Date.parse(job.finished) - Date.parse(job.started)) / 1000) : null],
      ["Runs", `${job.run}${job.failures || job.lost ? ` (${job.failures} failed, ${job.lost} lost)` : ""}`],
      ["Worker", job.worker ? workerLink(job.worker) : null],
      ["Token", h("span", { class: "mono" }, job.token)],
      ["Version", String(job.version)],
      ["Key", job.key ? copyable(job.key) : null],
      ["Tags", job.tags?.length ? tags(job.tags) : null],
      ["Reason", job.reason],
      ["Expires", job.expires ? when(job.expires) : null],
      ["Held back by", job.parked],
      ...Object.entries({ ...flow, limit_key: flow.limit_key ?? job.limit_key, fair_key: flow.fair_key ?? job.fair_key, sequence_key: flow.sequence_key ?? job.sequence_key, expires: null, is_open: flow.is_open ? "yes" : null })
        .filter(([, value]) => value !== null && value !== undefined && value !== 0 && value !== "").map(([name, value]) => [word(name), shown(value)]),
      ["Done before it", flow.comes_after ? progress(flow.comes_after, flow.not_done) : null],
      ["Partition", this.data.partition],
    ]));
  }

  async #cancel(job) {
    const words = LEASED.has(job.state) ? "It is being run: its worker is asked to stop it." : "It will not be run.";
    if (!await confirm({ title: "Cancel this job?", words, action: "Cancel the job", danger: true })) return;
    await this.act(() => this.api.post(`jobs/${path(job.id)}/cancel`), ({ answer }) => ({ cancelled: "The job is cancelled.", asked: "Its worker was asked to stop it.", finished: "It had finished already." })[answer] ?? "Done.");
  }

  async #replay(job) {
    if (!await confirm({ title: "Replay this job?", words: "It gets all its attempts again, from now on.", action: "Replay it" })) return;
    await this.act(() => this.api.post(`jobs/${path(job.id)}/replay`, {}), "The job is back at work.");
  }

  async #delete(job) {
    if (!await confirm({ title: "Delete this job?", words: "It is gone with its history and its key. This cannot be taken back.", action: "Delete it", danger: true })) return;
    try {
      await this.api.delete(`jobs/${path(job.id)}`);
      this.app.toast("The job is deleted.");
      this.app.go("#/jobs");
    } catch (error) {
      this.app.toast(error.message, "bad");
      this.refresh();
    }
  }

  #edit(job) {
    const send = async (given) => {
      const body = { version: job.version };
      if (given.queue !== job.queue) body.queue = given.queue;
      if (Number(given.priority) !== job.priority) body.priority = Number(given.priority);
      if (given.delay) body.delay = Number(given.delay);
      const list = given.tags.split(/[\s,]+/).filter(Boolean);
      if (list.join() !== (job.tags ?? []).join()) body.tags = list;
      await this.api.patch(`jobs/${path(job.id)}`, body);
      this.app.toast("The job is changed.");
      this.refresh();
    };
    return form({
      title: "Edit this job", action: "Change it", send, words: "If a worker or somebody else changes it first, nothing is done.",
      fields: [
        { name: "queue", label: "Queue", value: job.queue },
        { name: "priority", label: "Priority", type: "number", value: String(job.priority), hint: "Lower numbers go first." },
        { name: "delay", label: "Due in (s)", type: "number", placeholder: "as it is" },
        { name: "tags", label: "Tags", value: (job.tags ?? []).join(" ") },
      ],
    });
  }

  async #reveal() {
    if (!await confirm({ title: "Show what is masked?", words: "The audit log tells that you looked.", action: "Show it" })) return;
    try {
      this.revealed = await this.api.get(`jobs/${path(this.id)}/payload`);
    } catch (error) {
      this.app.toast(error.message, "bad");
    }
    this.draw();
  }
}

function lastLine(error) { return String(error).trimEnd().split("\n").at(-1); }

function word(name) { const text = name.replaceAll("_", " "); return text[0].toUpperCase() + text.slice(1); }

function shown(value) {
  if (typeof value === "string" && ISO.test(value)) return h("span", null, dayTime(value), " ", h("span", { class: "faint" }, "(", when(value), ")"));
  if (Array.isArray(value)) return value.length ? value.map(String).join(", ") : "none";
  return typeof value === "object" && value !== null ? JSON.stringify(value) : String(value);
}

