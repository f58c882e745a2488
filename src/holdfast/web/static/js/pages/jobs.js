// Jobs: found by what they are, page by page, steered one by one or together.

import { bulk } from "../bulk.js";
import { confirm } from "../dialog.js";
import { h } from "../dom.js";
import { jobRows } from "../joblist.js";
import { Page } from "../page.js";
import { button, empty, jobsHref, notice } from "../parts.js";
import { JOB_STATES, obstacle } from "../states.js";
import { many, now } from "../words.js";
import { enqueueForm } from "../enqueue.js";

const SIZE = 50;
const NAMES = ["queue", "task", "tag", "worker"];
const DUES = [["", "Due at any time"], ["overdue", "Due before now"], ["hour", "Due in the next hour"], ["day", "Due in the next day"]];
const DONE = { cancel: "cancelled or asked to stop", replay: "put back to work", delete: "deleted" };
const WORDS = { cancel: "Waiting ones are cancelled at once; those that run are asked to stop.", replay: "Each gets all its attempts again, from now on.", delete: "They are gone with their history. This cannot be taken back." };

export class Jobs extends Page {
  title = "Jobs";
  crumbs = [["Jobs", null]];

  constructor(app, route) {
    super(app, route);
    this.chosen = new Map();
    /** Whether all jobs that match are meant, not only those that are chosen. */
    this.all = false;
    this.#read(route);
  }

  #read(route) {
    this.route = route;
    const { query } = route;
    this.filters = { state: query.get("state") ?? "", due: query.get("due") ?? "", ...Object.fromEntries(NAMES.map((name) => [name, query.get(name) ?? ""])) };
    this.cursor = query.get("cursor");
    this.data = null;
    this.refusals = null;
  }

  #isFiltered() { return Object.values(this.filters).some(Boolean); }

  /** Another filter or page, without a new page around it. */
  turn(route) {
    this.#read(route);
    this.#forget();
    this.draw();
    this.refresh();
    return true;
  }

  #query() {
    const { due, ...rest } = this.filters;
    const at = (seconds) => new Date(now() + seconds * 1000).toISOString();
    const times = { overdue: { due_before: at(0) }, hour: { due_after: at(0), due_before: at(3600) }, day: { due_after: at(0), due_before: at(86_400) } }[due] ?? {};
    return { ...rest, ...times };
  }

  /** The first answer is shown whole. Later ones change rows in place; new jobs wait for a key, so that nothing jumps. */
  async load() {
    const found = await this.api.get("jobs", { ...this.#query(), limit: SIZE, cursor: this.cursor });
    if (!this.data || this.fresh) {
      this.fresh = false;
      return { jobs: found.jobs, cursor: found.cursor, left: new Set(), news: 0 };
    }
    const known = new Map(found.jobs.map((job) => [job.id, job]));
    const shown = new Set(this.data.jobs.map((job) => job.id));
    // What newer jobs have pushed to the next page is not answered for: it may well fit.
    const last = found.cursor ? found.jobs.at(-1).id : "";
    const left = new Set([...shown].filter((id) => !known.has(id) && id >= last));
    const newest = this.data.jobs[0]?.id ?? "";
    return {
      jobs: this.data.jobs.map((job) => known.get(job.id) ?? job), cursor: this.data.cursor, left,
      news: found.jobs.filter((job) => !shown.has(job.id) && job.id > newest).length,
    };
  }

  renew() {
    this.fresh = true;
    return this.refresh();
  }

  nextPage() { if (this.data?.cursor) this.app.go(jobsHref({ ...this.filters, cursor: this.data.cursor })); }

  escape() {
    if (!this.chosen.size) return false;
    this.#forget();
    this.draw();
    return true;
  }

  #forget() {
    this.chosen.clear();
    this.all = false;
  }

  draw() {
    this.news = this.data?.news ?? 0;
    super.draw();
  }

  bones() { return [this.#top(), super.bones()]; }

  view() {
    const { jobs } = this.data;
    return [
      this.#top(),
      this.refusals,
      h("section", { class: "card", key: "jobs", "aria-label": "Jobs found" }, jobs.length ? this.#rows() : this.#none(), this.#foot()),
      this.chosen.size ? this.#bar() : null,
    ];
  }

  #top() {
    const to = (state) => jobsHref({ ...this.filters, state });
    const set = (name) => (event) => this.app.go(jobsHref({ ...this.filters, [name]: event.target.value.trim() }));
    const active = this.#isFiltered();
    return [
      this.head("Jobs", "Newest first.", [
        button("Enqueue", { icon: "play", reason: this.app.lacks("operate"), onclick: () => enqueueForm(this) }),
      ]),
      h("div", { class: "stack", key: "filters" },
        h("nav", { class: "segment", "aria-label": "State" },
          h("a", { href: to(""), "aria-current": this.filters.state ? null : "true" }, "All"),
          JOB_STATES.map((state) => h("a", { href: to(state), "aria-current": this.filters.state === state ? "true" : null }, state))),
        h("div", { class: "filters", role: "search", "aria-label": "Filters" },
          NAMES.map((name) => h("input", { class: "input", key: name, name, type: "search", value: this.filters[name], placeholder: name[0].toUpperCase() + name.slice(1), "aria-label": name, autocomplete: "off", spellcheck: "false", onchange: set(name) })),
          h("select", { class: "input", key: "due", name: "due", "aria-label": "due", onchange: set("due") }, DUES.map(([value, label]) => h("option", { value, selected: value === this.filters.due }, label))),
          active ? h("a", { class: "button plain", href: "#/jobs", key: "clear" }, "Clear") : null)),
    ];
  }

  #rows() {
    const { jobs, left } = this.data;
    const chosen = jobs.filter((job) => this.chosen.has(job.id)).length;
    const pick = {
      has: (job) => this.chosen.has(job.id),
      toggle: (job) => { this.all = false; if (!this.chosen.delete(job.id)) this.chosen.set(job.id, job); this.draw(); },
      all: () => { this.all = false; for (const job of jobs) if (chosen === jobs.length) this.chosen.delete(job.id); else this.chosen.set(job.id, job); this.draw(); },
      state: chosen === 0 ? "none" : chosen === jobs.length ? "all" : "some",
    };
    return jobRows(jobs, { pick, dim: (job) => left.has(job.id) });
  }

  #none() {
    return this.#isFiltered()
      ? empty("search", "No job fits", this.cursor ? "This page is empty by now." : "Finished jobs are removed after their retention.", h("a", { class: "button", href: "#/jobs" }, "Show all jobs"))
      : empty("jobs", "No jobs yet", "Enqueue the first one from your code, or with the button above.");
  }

  #foot() {
    const { jobs, cursor, left, news } = this.data;
    return h("div", { class: "table-foot" },
      h("span", null, many(jobs.length, "job"), left.size ? `, ${left.size} of them do not fit any more` : ""),
      news ? button(`${news} new: show`, { small: true, icon: "refresh", onclick: () => this.renew() }) : null,
      left.size && !news ? button("Refresh", { small: true, onclick: () => this.renew() }) : null,
      h("div", { class: "end" },
        this.cursor ? h("a", { class: "button small", href: jobsHref(this.filters) }, "First page") : null,
        button("Next page", { small: true, title: "n", reason: cursor ? null : "This is the last page.", onclick: () => this.nextPage() })));
  }

  #bar() {
    const jobs = [...this.chosen.values()];
    const act = (action, label, role, danger) => {
      const fit = jobs.filter((job) => !obstacle(action, job));
      const reason = this.app.lacks(role) ?? (fit.length ? null : obstacle(action, jobs[0]));
      return button(`${label}${fit.length && fit.length < jobs.length ? ` ${fit.length}` : ""}`, { small: true, kind: danger ? "danger" : "", reason, onclick: () => this.#some(action, label, fit.map((job) => job.id), danger) });
    };
    const every = (action, label, role, danger) => button(`${label} all`, { small: true, kind: danger ? "danger" : "", reason: this.app.lacks(role) ?? this.#misfit(action), onclick: () => this.#every(action, label, danger) });
    const acts = this.all ? every : act;
    return h("div", { class: "choice-bar", key: "choice", role: "toolbar", "aria-label": "Selected jobs" },
      h("span", { class: "strong" }, this.all ? "All jobs that match" : [many(jobs.length, "job"), " selected"]),
      this.all || !this.#isFiltered() ? null : button("All that match", { small: true, kind: "plain", onclick: () => { this.all = true; this.draw(); } }),
      acts("cancel", "Cancel", "operate"), acts("replay", "Replay", "operate"), acts("delete", "Delete", "admin", true),
      button("Clear selection", { hidden: true, icon: "close", small: true, kind: "plain", onclick: () => this.escape() }));
  }

  #misfit(action) {
    const { state } = this.filters;
    return state ? obstacle(action, { state }) : null;
  }

  async #some(action, label, ids, danger) {
    const sure = await confirm({ title: `${label} ${many(ids.length, "job")}?`, words: WORDS[action], items: ids, action: `${label} ${ids.length}`, danger });
    if (sure) await this.act(() => this.api.post("jobs/bulk", { action, ids }), (answer) => this.#told(action, answer));
  }

  async #every(action, label, danger) {
    const { state, ...rest } = this.#query();
    const given = Object.entries(rest).filter(([, value]) => value);
    const states = state ? [state] : JOB_STATES.filter((each) => !obstacle(action, { state: each }));
    const items = [...given.map(([name, value]) => `${name.replace("_", " ")} ${value}`), state ? `state ${state}` : `in any state that allows it: ${states.join(", ")}`];
    const sure = await confirm({ title: `${label} all jobs that match?`, words: `${WORDS[action]} Those on other pages are among them.`, items, action: `${label} all`, danger });
    if (sure) await this.act(() => bulk(this.api, action, { ...Object.fromEntries(given), state: states }, this.ended.signal), (answer) => this.#told(action, answer));
  }

  #told(action, { done, refused, more }) {
    this.escape();
    this.refusals = refused.length ? notice("warn", h("div", null, h("p", null, `${many(refused.length, "job")} refused:`), h("ul", null, refused.slice(0, 10).map((each) => h("li", null, h("span", { class: "mono" }, each.id), `: ${each.message}`))))) : null;
    return `${many(done, "job")} ${DONE[action]}${more ? "; there are more" : ""}.`;
  }
}
