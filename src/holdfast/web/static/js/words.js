// Numbers, times and sizes as people read them.

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export function count(value) {
  return value === null || value === undefined ? "–" : whole.format(value);
}

/** Few digits for what is large; the exact number belongs into a title. */
export function brief(value) {
  return value === null || value === undefined ? "–" : Math.abs(value) < 100_000 ? whole.format(value) : short.format(value);
}

export function many(value, one, more = `${one}s`) {
  return `${brief(value)} ${value === 1 ? one : more}`;
}

export function rate(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  if (value < 0.1) return value.toFixed(2);
  if (value < 100) return trim(value, 1);
  return brief(Math.round(value));
}

const STEPS = [["y", 31_536_000], ["d", 86_400], ["h", 3600], ["min", 60]];

/** A duration of seconds: two parts at most. */
export function span(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
  const value = Math.abs(seconds);
  if (value < 0.0005) return "0 s";
  if (value < 0.9995) return `${trim(value * 1000, value < 0.01 ? 1 : 0)} ms`;
  if (value < 59.95) return `${trim(value, value < 10 ? 1 : 0)} s`;
  const at = STEPS.findIndex(([, size]) => value >= size - 0.05);
  const [name, size] = STEPS[at];
  const main = Math.floor((value + 0.05) / size);
  const [next, part] = STEPS[at + 1] ?? ["s", 1];
  const rest = main >= 10 ? 0 : Math.floor((value + 0.05 - main * size) / part);
  return rest > 0 ? `${main} ${name} ${rest} ${next}` : `${main} ${name}`;
}

function trim(value, digits) {
  const text = value.toFixed(digits);
  return digits ? text.replace(/\.0$/, "") : text;
}

let skew = 0;

/** The store's clock may differ from this machine's; times are counted by the former. */
export function setNow(iso) {
  const there = Date.parse(iso);
  if (!Number.isNaN(there)) skew = there - Date.now();
}

export function now() { return Date.now() + skew; }

/** How long ago or ahead, coarse enough to read at a glance. */
export function relative(iso) {
  const seconds = (now() - Date.parse(iso)) / 1000;
  if (Number.isNaN(seconds)) return String(iso);
  const far = Math.abs(seconds);
  if (far < 1) return "now";
  const text = far < 60 ? `${Math.floor(far)} s` : coarse(far);
  return seconds >= 0 ? `${text} ago` : `in ${text}`;
}

function coarse(seconds) {
  const [name, size] = STEPS.find(([, each]) => seconds >= each);
  return `${Math.floor(seconds / size)} ${name}`;
}

const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const dayClock = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

/** The whole instant, in the reader's zone and in UTC. */
export function absolute(iso) {
  const date = new Date(iso);
  return Number.isNaN(date.getTime()) ? String(iso) : `${full.format(date)}\n${date.toISOString()}`;
}

export function clockTime(instant) { return clock.format(new Date(instant)); }

export function dayTime(iso) {
  const date = new Date(iso);
  return Number.isNaN(date.getTime()) ? String(iso) : dayClock.format(date);
}

/** How a recurrence was written, in words. */
export function recurrence(rule) {
  if (!rule) return "–";
  if (rule.kind === "cron") return `${rule.expression} (${rule.tz})`;
  if (rule.kind === "at") return `once, ${dayTime(rule.at)}`;
  if (rule.kind === "every") {
    const from = rule.anchor === "start" ? ", from its start" : rule.anchor === "end" ? ", from its end" : "";
    return `every ${span(rule.seconds)}${from}`;
  }
  return String(rule.kind ?? rule);
}

/** The first eight and the last four signs tell ids apart that were made in one moment. */
export function shortId(id) {
  const text = String(id);
  return text.length > 20 ? `${text.slice(0, 8)}…${text.slice(-6)}` : text;
}

/** What a limit allows. */
export function allowance({ concurrency, rate: begun, per, burst }) {
  const parts = [];
  if (concurrency) parts.push(`${count(concurrency)} at once`);
  if (begun) parts.push(`${count(begun)} per ${per === 1 ? "second" : span(per)}${burst > 1 ? `, ${count(burst)} after a pause` : ""}`);
  return parts.join(" and ");
}
