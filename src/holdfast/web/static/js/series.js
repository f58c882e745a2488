// The last minutes as points, kept current by the stream.

const NAMES = ["succeeded", "failed", "retried", "lateness_p50", "lateness_p99", "queued", "in_progress", "oldest"];

export class Series {
  constructor(minutes) {
    this.minutes = minutes;
    this.points = [];
  }

  replace(points) { this.points = points.map(read); }

  add(...points) {
    const last = this.points.at(-1)?.time ?? 0;
    this.points.push(...points.map(read).filter((point) => point.time > last));
    const oldest = (this.points.at(-1)?.time ?? 0) - this.minutes * 60_000;
    this.points = this.points.filter((point) => point.time >= oldest);
  }

  /** From when to when a chart of it goes. */
  get window() {
    const end = this.points.at(-1)?.time ?? Date.now();
    return [end - this.minutes * 60_000, end];
  }
}

function read(point) {
  // Where nothing waits, the first in line has waited for no time: the line goes on at the bottom.
  return { time: Date.parse(point.at), ...Object.fromEntries(NAMES.map((name) => [name, point[name] ?? null])), age: point.oldest ?? 0 };
}
