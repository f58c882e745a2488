// States of jobs, outcomes of attempts: each with a sign, a tone and a word.

import { h } from "./dom.js";
import { icon } from "./icons.js";

const SIGNS = {
  scheduled: ["clock", "calm", "Waits for its time or for a free slot"],
  claimed: ["hand", "busy", "A worker holds it and will start it"],
  running: ["play", "busy", "A worker runs it"],
  success: ["check", "good", "Done"],
  retry: ["retry", "warn", "Failed, and will be tried again"],
  failed: ["cross", "bad", "Failed for good, outside the dead-letter queue"],
  dlq: ["box", "bad", "Attempts used up: in the dead-letter queue until replayed or discarded"],
  cancelled: ["ban", "calm", "Cancelled"],
  lost: ["warn", "bad", "The worker disappeared; its lease ran out"],
  released: ["back", "calm", "Given back unspent, for instance at a shutdown"],
  superseded: ["skip", "calm", "Another attempt had taken over"],
  paused: ["pause", "warn", "Nothing of it starts"],
  open: ["play", "good", "Jobs start"],
  live: ["check", "good", "Beats"],
  dead: ["cross", "bad", "Has not been heard of"],
  active: ["check", "good", "Fires at its times"],
  ended: ["ban", "calm", "Has nothing more to fire"],
  parked: ["pause", "bad", "Waits until it is replayed or skipped"],
  skipping: ["skip", "calm", "Will be left out"],
};

export const JOB_STATES = ["scheduled", "claimed", "running", "retry", "success", "failed", "dlq", "cancelled"];
export const WAITING = new Set(["scheduled", "retry"]);
export const LEASED = new Set(["claimed", "running"]);
export const EDITABLE = new Set(["scheduled", "retry", "dlq"]);
export const REPLAYABLE = new Set(["dlq", "failed"]);

export function sign(name) { return Object.hasOwn(SIGNS, name) ? SIGNS[name] : ["info", "calm", ""]; }
export function tone(name) { return `tone-${sign(name)[1]}`; }

export function badge(name, word = name) {
  const [picture, , meaning] = sign(name);
  return h("span", { class: ["state", tone(name)], title: meaning || null }, icon(picture), word);
}

/** What can be done to a job in this state; a sentence for what cannot. */
export function obstacle(action, job) {
  const { state } = job;
  if (action === "cancel") {
    if (job.cancel_asked && LEASED.has(state)) return "It was asked to stop already.";
    return WAITING.has(state) || LEASED.has(state) ? null : `It is finished (${state}).`;
  }
  if (action === "replay") return REPLAYABLE.has(state) ? null : `Only dead and failed jobs are replayed; this one is ${state}.`;
  if (action === "edit") return EDITABLE.has(state) ? null : `Only waiting and dead jobs are edited; this one is ${state}.`;
  if (action === "delete") return LEASED.has(state) ? "It is being run. Cancel it first." : null;
  return null;
}
