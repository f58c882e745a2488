// Before the first paint: the theme that was chosen here, so that nothing flashes.
const chosen = localStorage.getItem("holdfast-theme");
if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
