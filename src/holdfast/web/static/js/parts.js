// Small parts that many pages use.

import { path } from "./api.js";
import { h } from "./dom.js";
import { icon } from "./icons.js";
import { absolute, brief, count, relative, shortId } from "./words.js";
import { toast } from "./toast.js";

/** An instant: how far away it is, and in full on hover. It is kept current by `keepTimes`. */
export function when(iso, none = "–") {
  if (!iso) return h("span", { class: "faint" }, none);
  return h("time", { datetime: iso, title: absolute(iso), "data-ago": "" }, relative(iso));
}

/** Keeps all shown times current. Texts change in place, and nothing else. */
export function keepTimes() {
  setInterval(() => {
    if (document.hidden) return;
    for (const each of document.querySelectorAll("time[data-ago]")) {
      const text = relative(each.getAttribute("datetime"));
      if (each.firstChild?.data !== text) each.textContent = text;
    }
  }, 1000);
}

export function number(value) {
  return h("span", { title: value >= 100_000 ? count(value) : null }, brief(value));
}

export function href(...parts) { return `#/${path(...parts)}`; }

/** The address of the list of jobs with these filters. */
export function jobsHref(filters) {
  const query = new URLSearchParams(Object.entries(filters).filter(([, value]) => value));
  return `#/jobs?${query}`;
}

export function jobLink(id, { main = false } = {}) {
  return h("a", { class: ["mono", "nowrap", main && "main"], href: href("jobs", id), title: id }, shortId(id));
}

export function workerLink(id) {
  return id ? h("a", { class: "mono name", title: id, href: href("workers", id) }, id) : h("span", { class: "faint" }, "–");
}

export function queueLink(name) { return h("a", { class: "name", href: href("queues", name) }, name); }

export function copyable(text, shown = text) {
  return h("button", {
    class: "copy mono", type: "button", title: `Copy ${text}`, "aria-label": `Copy ${text}`,
    onclick: async (event) => {
      event.preventDefault();
      try {
        await navigator.clipboard.writeText(text);
        toast("Copied.");
      } catch {
        toast("This browser does not let the page copy. Select the text instead.", "warn");
      }
    },
  }, h("span", { class: "clip" }, shown), icon("copy"));
}

/** A button. With a `reason` it cannot be used, stays reachable, and says why. */
export function button(label, { icon: picture, onclick, kind = "", reason = null, small = false, title = null, hidden = false, ...rest } = {}) {
  return h("button", {
    type: "button",
    class: ["button", kind, small && "small", hidden && "icon"],
    title: reason ?? title ?? (hidden ? label : null),
    "aria-disabled": reason ? "true" : null,
    "aria-label": reason ? `${label}: ${reason}` : hidden ? label : null,
    onclick: reason ? (event) => { event.preventDefault(); toast(reason, "warn"); } : onclick,
    ...rest,
  }, picture && icon(picture), hidden ? null : label);
}

export function card(title, body, { end = null, flush = false, lead = null, ...rest } = {}) {
  return h("section", { class: "card", "aria-label": title, ...rest },
    h("header", null, h("h2", null, title), lead && h("span", { class: "faint" }, lead), end && h("div", { class: "end" }, end)),
    h("div", { class: ["body", flush && "flush"] }, body));
}

export function empty(picture, title, words, action = null) {
  return h("div", { class: "empty" }, icon(picture), h("p", { class: "title" }, title), words && h("p", null, words), action);
}

export function notice(tone, words, action = null) {
  const picture = tone === "good" ? "check" : tone === "calm" ? "info" : "warn";
  return h("div", { class: ["notice", `tone-${tone}`], role: tone === "bad" ? "alert" : "status", key: "notice" }, icon(picture), h("div", { class: "words" }, words), action);
}

export function bones(lines = 6) {
  const widths = ["92%", "78%", "86%", "64%", "81%", "70%", "88%", "58%"];
  return h("div", { class: "bones", "aria-hidden": "true" }, Array.from({ length: lines }, (_, at) => h("span", { class: "bone", vars: { "--w": widths[at % widths.length] } })));
}

export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => [h("dt", { key: `t-${name}` }, name), h("dd", { key: `d-${name}` }, value)]));
}

export function tags(list) {
  return h("span", { class: "tags" }, (list ?? []).map((tag) => h("a", { class: "tag", href: jobsHref({ tag }) }, tag)));
}

export function meter(part, tone = "accent", label = null) {
  const percent = Math.round(Math.min(1, Math.max(0, part || 0)) * 100);
  return h("span", { class: ["meter", `tone-${tone}`], role: "img", "aria-label": label ?? `${percent} %`, vars: { "--part": `${percent}%` } }, h("i"));
}

/** A value that may be anything, as text. */
export function code(value) {
  return h("pre", { class: "code", tabindex: "0" }, typeof value === "string" ? value : JSON.stringify(value, null, 2));
}
