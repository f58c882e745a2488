// A table whose rows keep their place and their focus while values change.

import { h } from "./dom.js";

/**
 * `columns` are `{label, cell(row), num, fit, whole, pick, none(row)}`; `key(row)` names a row.
 * A `rare` column is left out where the screen is neither wide nor small.
 * A cell with a label shows it on small screens, where each row becomes a card.
 */
export function table({ label, columns, rows, key, selected = () => false, dim = () => false, row: extra = () => ({}) }) {
  return h("div", { class: "scroll" },
    h("table", { class: "cards", "aria-label": label },
      h("thead", null, h("tr", null, columns.map((column) => h("th", { scope: "col", class: classes(column) }, column.head ?? column.label)))),
      h("tbody", null, rows.map((row) => h("tr", { key: key(row), "data-row": key(row), "aria-selected": selected(row) ? "true" : null, class: dim(row) ? "gone" : null, ...extra(row) },
        columns.map((column) => h("td", { class: [classes(column), column.none?.(row) && "none", column.zero?.(row) && "zero"].filter(Boolean).join(" ") || null, "data-label": column.label && !column.whole ? column.label : null }, column.cell(row))))))));
}

function classes({ num, fit, whole, pick, free, rare }) {
  return [rare && "rare", free && "free", num && "num", fit && "fit", whole && "whole", pick && "pick"].filter(Boolean).join(" ") || null;
}

/** Moves the focus to the main link of the next or the previous row. */
export function moveRow(by) {
  const rows = [...document.querySelectorAll("main [data-row]")];
  if (!rows.length) return;
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const row = rows[Math.min(rows.length - 1, Math.max(0, at < 0 ? (by > 0 ? 0 : rows.length - 1) : at + by))];
  (row.querySelector("a.main") ?? row.querySelector("a, button, input"))?.focus();
  row.scrollIntoView({ block: "nearest" });
}

/** Ticks the box of the row that has the focus. */
export function tickRow() {
  document.activeElement?.closest("[data-row]")?.querySelector("input[type=checkbox]")?.click();
}
