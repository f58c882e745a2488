// What surrounds every page: navigation, where one is, whether it is live, who is signed in.

import { draw, h } from "./dom.js";
import { icon } from "./icons.js";
import { PLACES } from "./keys.js";
import { button } from "./parts.js";
import { theme } from "./theme.js";
import { brief } from "./words.js";

const STATES = { live: "Live", reconnecting: "Reconnecting…", paused: "Paused" };

export class Shell {
  constructor(app) {
    this.app = app;
    this.open = false;
    this.main = h("main", { id: "main", tabindex: "-1" });
    this.root = h("div", { class: "frame" });
    app.live.addEventListener("state", () => this.draw());
    app.live.addEventListener("overview", () => this.draw());
  }

  show(page) {
    this.open = false;
    this.main.replaceChildren(page.root);
    this.draw();
  }

  draw() {
    draw(this.root,
      h("a", { class: "skip-link", href: "#main", onclick: (event) => { event.preventDefault(); this.main.focus(); } }, "Skip to the page"),
      h("div", { class: ["shell", this.open && "menu-open"] },
        this.#side(),
        h("button", { class: "scrim", type: "button", tabindex: "-1", "aria-label": "Close the menu", onclick: () => this.toggle(false) }),
        h("div", { class: "column" }, this.#bar(), h("div", { slot: this.main }))));
  }

  toggle(open) {
    this.open = open;
    this.draw();
    this.root.querySelector(open ? ".side a.nav" : ".menu-button").focus();
  }

  #side() {
    const { session } = this.app;
    const overview = this.app.live.overview;
    const here = this.app.page?.route.path[0] ?? "";
    const paused = overview?.queues?.filter((queue) => queue.paused).length ?? 0;
    const notes = {
      dead: overview?.dlq ? [brief(overview.dlq), "bad", "dead letters"] : null,
      workers: overview ? [brief(overview.workers?.live ?? 0), overview.workers?.live ? "" : "bad", "live workers"] : null,
      queues: paused ? [`${paused} paused`, "warn", ""] : null,
    };
    return h("nav", { class: "side", "aria-label": "Pages" },
      h("a", { class: "brand", href: "#/" }, h("img", { src: "static/icon.svg", alt: "", width: "22", height: "22" }), h("span", null, "Holdfast", h("span", { class: "space" }, session?.namespace ?? ""))),
      PLACES.map(([key, path, name, picture]) => {
        const note = notes[path];
        return h("a", { class: "nav", href: `#/${path}`, "aria-current": here === path ? "page" : null, title: `g ${key}`, key: path || "overview" },
          icon(picture), name, note && h("span", { class: ["count", note[1]] }, note[0], note[2] && h("span", { class: "unseen" }, ` ${note[2]}`)));
      }),
      h("div", { class: "foot" },
        h("div", { class: "who" }, h("div", null, h("div", { class: "clip strong" }, session?.user ?? "–"), h("div", { class: "faint" }, `${session?.role ?? ""} · ${session?.store ?? ""}`)),
          button("Sign out", { icon: "leave", hidden: true, kind: "plain", onclick: this.app.signOut })),
        h("div", { class: "tools" },
          button(`Theme: ${theme()}`, { icon: { auto: "auto", light: "sun", dark: "moon" }[theme()], kind: "plain", small: true, onclick: this.app.turnTheme }),
          button("Help", { icon: "help", kind: "plain", small: true, title: "Keyboard shortcuts (?)", onclick: this.app.help })),
        h("div", { class: "faint" }, session?.version ? `Holdfast ${session.version}` : null)));
  }

  #bar() {
    const crumbs = this.app.page?.crumbs ?? [];
    const { state } = this.app.live;
    return h("header", { class: "bar" },
      h("button", { class: "button plain icon menu-button", type: "button", "aria-label": "Menu", "aria-expanded": String(this.open), onclick: () => this.toggle(!this.open) }, icon("menu")),
      h("nav", { class: "crumbs", "aria-label": "Where you are" }, crumbs.map(([label, to], at) => [at ? h("span", { class: "sep" }, "/") : null, to ? h("a", { href: to }, label) : h("span", { "aria-current": "page" }, label)])),
      h("div", { class: "end" },
        h("button", { class: "search-button", type: "button", "aria-label": "Search", onclick: this.app.search }, icon("search"), h("span", null, "Search"), h("kbd", null, "/")),
        h("span", { class: "live", "data-state": state, role: "status", title: state === "live" ? "Changes appear by themselves" : "What you see may be old" }, h("i"), h("span", null, STATES[state]))));
  }
}
