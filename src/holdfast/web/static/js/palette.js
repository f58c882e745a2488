// Search: a job by its id, a page, a queue, or jobs by task, tag or worker.

import { show } from "./dialog.js";
import { draw, h } from "./dom.js";
import { icon } from "./icons.js";
import { PLACES } from "./keys.js";
import { href, jobsHref } from "./parts.js";

const ID = /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i;
const NAME = /^[A-Za-z0-9_][A-Za-z0-9_.@/+=-]{0,199}$/;

/** Shows the search; gives the address that was chosen, a function to be called, or null. */
export function palette(app) {
  return show("palette", "Search", (close) => {
    let options = [];
    let at = 0;
    const list = h("ul", { id: "found", role: "listbox", "aria-label": "Results" });
    const input = h("input", {
      type: "text", role: "combobox", "aria-label": "Search", "aria-controls": "found", "aria-expanded": "true", "aria-autocomplete": "list",
      placeholder: "Job id, page, queue, task, tag…", autocomplete: "off", spellcheck: "false", autofocus: true,
      oninput: () => { at = 0; redraw(); },
      onkeydown: (event) => {
        const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
        if (by) { event.preventDefault(); at = (at + by + options.length) % Math.max(1, options.length); redraw(); }
        if (event.key === "Enter") { event.preventDefault(); if (options[at]) close(options[at].to); }
      },
    });
    const redraw = () => {
      options = found(app, input.value.trim());
      draw(list, ...options.map((option, index) => h("li", { key: `${option.label}${option.hint}`, id: `found-${index}`, role: "option", "aria-selected": String(index === at), onclick: () => close(option.to) },
        icon(option.icon), h("span", null, option.label), h("span", { class: "hint" }, option.hint))));
      if (options.length) input.setAttribute("aria-activedescendant", `found-${at}`);
      else draw(list, h("li", { key: "none" }, h("span", { class: "muted" }, "Nothing fits. Names have letters, digits and _ . @ / + = - only.")));
      list.children[at]?.scrollIntoView({ block: "nearest" });
    };
    redraw();
    return [h("div", { class: "ask" }, icon("search"), input, h("kbd", null, "Esc")), list];
  });
}

function found(app, text) {
  const low = text.toLowerCase();
  const fits = (name) => !low || name.toLowerCase().includes(low);
  const options = [];
  if (ID.test(text)) options.push({ label: "Open this job", hint: text, icon: "jobs", to: href("jobs", text) });
  for (const [key, to, name, picture] of PLACES) if (fits(name)) options.push({ label: name, hint: `g ${key}`, icon: picture, to: `#/${to}` });
  for (const { name } of app.live.overview?.queues ?? []) if (low && fits(name) && options.length < 14) options.push({ label: name, hint: "queue", icon: "queues", to: href("queues", name) });
  if (NAME.test(text) && !ID.test(text)) {
    options.push({ label: `Jobs of task ${text}`, hint: "task", icon: "filter", to: jobsHref({ task: text }) });
    options.push({ label: `Jobs with tag ${text}`, hint: "tag", icon: "filter", to: jobsHref({ tag: text }) });
    options.push({ label: `Jobs held by worker ${text}`, hint: "worker", icon: "filter", to: jobsHref({ worker: text }) });
  }
  for (const [name, picture, to] of [["Change theme", "auto", app.turnTheme], ["Keyboard shortcuts", "help", app.help], ["Sign out", "leave", app.signOut]]) {
    if (fits(name)) options.push({ label: name, hint: "", icon: picture, to });
  }
  return options;
}
