// "Is it healthy?", answered in one sentence, with what to look at below it.

import { href, jobsHref } from "./parts.js";
import { many, rate, span } from "./words.js";

const LATE = 60;
const RECENT = 60_000;

/** `{tone, sentence, notes: [{words, to}]}` for an overview and the newest points of the series. */
export function verdict(overview, points) {
  const { stats, queues, workers } = overview;
  const found = [];
  const add = (tone, sentence, to = null) => found.push({ tone, sentence, to });
  const recent = lately(points);

  if (!workers.live && stats.queued) add("bad", `Nothing runs: no worker is live, and ${many(stats.queued, "job")} ${stats.queued === 1 ? "is" : "are"} due.`, "#/workers");
  else if (!workers.live) add("warn", "No worker is live. Nothing is due either.", "#/workers");
  if (workers.stuck) add("bad", `${many(workers.stuck, "slot")} of workers are stuck: their handlers do not stop.`, "#/workers");
  if (!overview.leader && overview.schedules.total > overview.schedules.paused && workers.live) add("warn", "There is no leader, so no schedule fires.", "#/schedules");

  for (const queue of queues) {
    const waits = queue.counts.queued;
    if (queue.paused && waits) add("warn", `Queue ${queue.name} is paused${since(queue.paused_since, overview.now)}, and ${many(waits, "job")} wait${waits === 1 ? "s" : ""} in it.`, href("queues", queue.name));
    else if (!queue.paused && queue.oldest > LATE && workers.live) add("warn", `Queue ${queue.name} is behind: its first job has waited for ${span(queue.oldest)}.`, href("queues", queue.name));
  }
  if (recent.failed > 0.05 * (recent.succeeded + recent.failed) && recent.failed * recent.seconds >= 3) {
    add("warn", `${Math.round((100 * recent.failed) / (recent.succeeded + recent.failed))} % of the jobs of the last minute failed for good.`, jobsHref({ state: "dlq" }));
  }
  const notes = [];
  if (overview.dlq) notes.push({ words: `${many(overview.dlq, "dead letter")} want${overview.dlq === 1 ? "s" : ""} a decision.`, to: "#/dead" });
  if (workers.dead) notes.push({ words: `${many(workers.dead, "worker")} ${workers.dead === 1 ? "has" : "have"} not been heard of.`, to: "#/workers" });

  const worst = found.find((each) => each.tone === "bad") ?? found[0];
  const others = found.filter((each) => each !== worst).map((each) => ({ words: each.sentence, to: each.to }));
  if (worst) return { tone: worst.tone, sentence: worst.sentence, to: worst.to, notes: [...others, ...notes].slice(0, 5) };
  return { tone: "good", sentence: well(stats, workers, recent), to: null, notes };
}

function well(stats, workers, recent) {
  const crew = `${many(workers.live, "worker")}`;
  if (recent.succeeded > 0.005) {
    const late = recent.late === null ? "" : `, half of them within ${span(recent.late)} of their time`;
    return `Healthy: ${crew} finish${workers.live === 1 ? "es" : ""} ${rate(recent.succeeded)} jobs a second${late}.`;
  }
  if (stats.in_progress) return `Healthy: ${crew} run${workers.live === 1 ? "s" : ""} ${many(stats.in_progress, "job")}; nothing waits too long.`;
  return `Healthy and idle: ${crew} wait${workers.live === 1 ? "s" : ""} for work.`;
}

function lately(points) {
  const last = points.at(-1)?.time ?? 0;
  const recent = points.filter((point) => point.time > last - RECENT);
  const mean = (name) => (recent.length ? recent.reduce((sum, point) => sum + (point[name] ?? 0), 0) / recent.length : 0);
  const late = recent.findLast((point) => point.lateness_p50 !== null)?.lateness_p50 ?? null;
  return { succeeded: mean("succeeded"), failed: mean("failed"), late, seconds: recent.length ? Math.max(2, (last - recent[0].time) / 1000) : 0 };
}

function since(iso, now) {
  return iso ? ` for ${span((Date.parse(now) - Date.parse(iso)) / 1000)}` : "";
}

