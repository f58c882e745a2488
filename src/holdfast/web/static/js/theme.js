// Light, dark, or as the system has it.

const NAMES = ["auto", "light", "dark"];

export function theme() { return document.documentElement.dataset.theme ?? "auto"; }

export function nextTheme() {
  const next = NAMES[(NAMES.indexOf(theme()) + 1) % NAMES.length];
  if (next === "auto") {
    delete document.documentElement.dataset.theme;
    localStorage.removeItem("holdfast-theme");
  } else {
    document.documentElement.dataset.theme = next;
    localStorage.setItem("holdfast-theme", next);
  }
  return next;
}
