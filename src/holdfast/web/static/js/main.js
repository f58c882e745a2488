// The application: session, pages by address, and what they share.

import { Api } from "./api.js";
import { draw } from "./dom.js";
import { help, Keys } from "./keys.js";
import { Live } from "./live.js";
import { palette } from "./palette.js";
import { keepTimes } from "./parts.js";
import { Shell } from "./shell.js";
import { signIn } from "./signin.js";
import { nextTheme } from "./theme.js";
import { toast } from "./toast.js";
import { setNow } from "./words.js";
import { Batches } from "./pages/batches.js";
import { Dead } from "./pages/dead.js";
import { Events } from "./pages/events.js";
import { JobPage } from "./pages/job.js";
import { Jobs } from "./pages/jobs.js";
import { Locks } from "./pages/locks.js";
import { Missing } from "./pages/missing.js";
import { Overview } from "./pages/overview.js";
import { QueuePage } from "./pages/queue.js";
import { Queues } from "./pages/queues.js";
import { SchedulePage } from "./pages/schedule.js";
import { Schedules } from "./pages/schedules.js";
import { WorkerPage } from "./pages/worker.js";
import { Workers } from "./pages/workers.js";

const PAGES = {
  "": [Overview], jobs: [Jobs, JobPage], queues: [Queues, QueuePage], dead: [Dead], workers: [Workers, WorkerPage],
  schedules: [Schedules, SchedulePage], batches: [Batches], locks: [Locks], events: [Events],
};
const RANKS = { read: 0, operate: 1, admin: 2 };

/** What it stands for; as it is if it was cut off. */
const decoded = (text) => { try { return decodeURIComponent(text); } catch { return text; } };

class App {
  constructor() {
    this.api = new Api();
    this.live = new Live(this.api);
    this.session = null;
    this.page = null;
    this.toast = toast;
    this.help = help;
    this.root = document.body.appendChild(document.createElement("div"));
    this.shell = new Shell(this);
    this.api.onSignedOut = () => this.#ask("Your session has ended. Sign in again.");
    this.live.addEventListener("overview", ({ detail }) => setNow(detail.now));
    window.addEventListener("hashchange", () => this.#moved());
    new Keys(this);
    keepTimes();
  }

  async start() {
    const token = this.#token();
    if (token) {
      await this.#signInByAddress(token);
      return;
    }
    try {
      this.#enter(await this.api.get("session"));
    } catch (error) {
      this.#ask(error.status === 401 ? null : error.message);
    }
  }

  /** Why the role may not do what needs another, or null. */
  lacks(role) {
    return RANKS[this.session?.role] >= RANKS[role] ? null : `This needs the role ${role}; yours is ${this.session?.role}.`;
  }

  go(hash) { location.hash = hash; }

  /** Escape: takes back a selection, else goes up. */
  back() {
    if (this.page?.escape?.()) return;
    const up = this.page?.crumbs.at(-2)?.[1];
    if (up) this.go(up);
  }

  search = async () => {
    if (document.querySelector("dialog[open]")) return;
    const to = await palette(this);
    if (typeof to === "string") this.go(to);
    else to?.();
  };

  turnTheme = () => {
    nextTheme();
    this.shell.draw();
  };

  signOut = async () => {
    try {
      await this.api.delete("session");
    } catch (error) {
      toast(error.message, "bad");
      return;
    }
    this.#ask(null);
  };

  /** The token of a sign-in address. It is taken out of the address at once. */
  #token() {
    const found = /^#token=(.+)$/.exec(location.hash);
    if (!found) return null;
    history.replaceState(null, "", location.pathname + location.search);
    return decoded(found[1]);
  }

  /** A sign-in address may be opened where the page already asks for a token. */
  #moved() {
    const token = this.#token();
    if (token === null && this.session) this.#open();
    else if (token && !this.session) this.#signInByAddress(token);
  }

  async #signInByAddress(token) {
    try {
      await this.#signIn(token);
    } catch (error) {
      this.#ask(error.status === 401 ? "The sign-in address is not valid any more." : error.message);
    }
  }

  async #signIn(token) {
    const made = await this.api.post("session", { token });
    this.#enter(made?.role ? made : await this.api.get("session"));
  }

  #enter(session) {
    this.session = session;
    this.api.csrf = session.csrf ?? null;
    draw(this.root);
    this.root.append(this.shell.root);
    this.live.start();
    this.#open();
  }

  #ask(words) {
    this.session = null;
    this.api.csrf = null;
    this.live.stop();
    this.page?.stop();
    this.page = null;
    for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
    this.root.replaceChildren();
    document.title = "Sign in · Holdfast";
    signIn(this.root, (token) => this.#signIn(token), words);
  }

  #open() {
    const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
    const parts = path.split("/").filter(Boolean).map(decoded);
    const route = { path: parts.length ? parts : [""], query: new URLSearchParams(query) };
    const kinds = Object.hasOwn(PAGES, route.path[0]) ? PAGES[route.path[0]] : [];
    const Kind = kinds[route.path.length - 1] ?? Missing;
    if (this.page instanceof Kind && this.page.turn?.(route)) { this.shell.draw(); return; }
    this.page?.stop();
    this.page = new Kind(this, route);
    this.live.watch(this.page.jobs ?? []);
    document.title = `${this.page.title} · Holdfast`;
    this.shell.show(this.page);
    this.page.start();
    window.scrollTo(0, 0);
    // A page that was opened by keyboard begins where its heading is.
    if (document.activeElement === document.body || !document.activeElement?.isConnected) this.shell.main.focus({ preventScroll: true });
  }
}

new App().start();
