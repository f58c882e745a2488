// Short messages in a corner. They are also read out.

import { h } from "./dom.js";
import { icon } from "./icons.js";

const STAYS = { good: 4_000, calm: 4_000, warn: 7_000, bad: 12_000 };
let place = null;

export function toast(words, tone = "good") {
  place ??= document.body.appendChild(h("div", { class: "toasts", role: "status", "aria-live": "polite", popover: "manual" }));
  // In the top layer, so that it is seen above an open dialog as well.
  if (place.matches(":popover-open")) place.hidePopover();
  place.showPopover();
  const close = () => { one.remove(); if (!place.childElementCount) place.hidePopover(); };
  const one = h("div", { class: ["toast", `tone-${tone}`] },
    icon(tone === "good" ? "check" : tone === "calm" ? "info" : "warn"),
    h("div", { class: "words" }, words),
    h("button", { class: "button plain icon small", type: "button", "aria-label": "Dismiss", onclick: close }, icon("close")));
  place.append(one);
  while (place.childElementCount > 4) place.firstChild.remove();
  setTimeout(close, STAYS[tone] ?? 4_000);
}
