// Questions and forms. The browser's own dialog traps focus, closes with Escape, and gives the focus back.

import { h } from "./dom.js";

/** Shows a dialog; gives what it was closed with, or null. `build(close)` makes its content. */
export function show(name, label, build) {
  const before = document.activeElement;
  return new Promise((resolve) => {
    let answer = null;
    const dialog = h("dialog", { class: name, "aria-label": label });
    const close = (value = null) => { answer = value; dialog.close(); };
    dialog.append(...[build(close, dialog)].flat());
    dialog.addEventListener("close", () => { dialog.remove(); if (before?.isConnected) before.focus(); resolve(answer); });
    dialog.addEventListener("click", (event) => { if (event.target === dialog) close(); });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Asks before something is done; true if it shall be. */
export function confirm({ title, words, items = [], action, danger = false }) {
  return show("confirm", title, (close) => h("form", { method: "dialog", onsubmit: (event) => { event.preventDefault(); close(true); } },
    h("div", { class: "inside" },
      h("h2", null, title),
      words && h("p", { class: "muted" }, words),
      items.length ? h("ul", { class: "list mono", tabindex: "0" }, items.map((item) => h("li", null, item))) : null),
    h("div", { class: "ends" },
      h("button", { class: "button", type: "button", onclick: () => close() }, "Keep as it is"),
      h("button", { class: ["button", "primary", danger && "danger"], type: "submit", autofocus: true }, action)))).then(Boolean);
}

/** A form. `fields` are `{name, label, type, value, hint, placeholder, options, whole}`; gives their values as text.
 *  `send` may refuse by throwing; its words are shown at the field that it names, and the form stays open. */
export function form({ title, words, fields, action, send }) {
  return show("form", title, (close) => {
    const inputs = Object.fromEntries(fields.map((field) => [field.name, control(field)]));
    const problem = h("p", { class: "bad", role: "alert" });
    const submit = h("button", { class: "button primary", type: "submit" }, action);
    const sendIt = async (event) => {
      event.preventDefault();
      for (const input of Object.values(inputs)) input.removeAttribute("aria-invalid");
      submit.setAttribute("aria-busy", "true");
      try {
        close(await send(Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, input.value.trim()]))) ?? true);
      } catch (error) {
        problem.textContent = error.message;
        const named = inputs[error.field] ?? null;
        named?.setAttribute("aria-invalid", "true");
        named?.focus();
      } finally {
        submit.removeAttribute("aria-busy");
      }
    };
    return h("form", { onsubmit: sendIt },
      h("div", { class: "inside" },
        h("h2", null, title),
        words && h("p", { class: "muted" }, words),
        h("div", { class: "form-grid" }, fields.map((field) => h("label", { class: ["field", field.whole && "whole"] },
          h("span", null, field.label), inputs[field.name], field.hint && h("small", { class: "hint" }, field.hint)))),
        problem),
      h("div", { class: "ends" },
        h("button", { class: "button", type: "button", onclick: () => close() }, "Keep as it is"), submit));
  });
}

function control({ name, type = "text", value = "", placeholder = null, options = null }) {
  const props = { class: "input", name, value, placeholder, autocomplete: "off", spellcheck: "false" };
  if (options) return h("select", { class: "input", name }, options.map(([each, label]) => h("option", { value: each, selected: each === value }, label)));
  if (type === "area") return h("textarea", props);
  return h("input", { type, step: type === "number" ? "any" : null, ...props });
}
