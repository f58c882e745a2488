// A job's life on one line: where it waited, where each attempt ran.

import { h, s } from "./dom.js";
import { tone } from "./states.js";
import { dayTime, now, span } from "./words.js";

const WIDTH = 1000, TOP = 0, TALL = 16;

export function strip(job, attempts) {
  const start = Date.parse(job.created);
  const running = job.started && !job.finished && job.worker;
  const marks = [...attempts.map((each) => Date.parse(each.finished)), job.finished ? Date.parse(job.finished) : now()];
  const end = Math.max(start + 1, ...marks);
  const x = (time) => Math.min(WIDTH, Math.max(0, ((time - start) / (end - start)) * WIDTH));
  const bar = (from, to, name, key) => s("rect", { key, class: `run ${tone(name)}`, x: x(from), y: TOP, width: Math.max(4, x(to) - x(from)), height: TALL, rx: 3 }, s("title", null, `Attempt ${key}: ${name}, ${span((to - from) / 1000)}`));
  return h("figure", null,
    s("svg", { class: "strip", viewBox: `0 0 ${WIDTH} 16`, preserveAspectRatio: "none", role: "img", "aria-label": `From ${dayTime(job.created)}, ${span((end - start) / 1000)} with ${attempts.length + (running ? 1 : 0)} attempts` },
      s("rect", { class: "wait", x: 0, y: TOP + 5, width: WIDTH, height: 6, rx: 3 }),
      attempts.map((each) => bar(Date.parse(each.started ?? each.finished), Date.parse(each.finished), each.outcome, String(each.run))),
      running ? bar(Date.parse(job.started), now(), "running", String(job.run)) : null));
}
