// The four charts that tell how work goes: throughput, lateness, failures, queue age.

import { Chart, Cross, roundTime } from "./chart.js";
import { rate, span } from "./words.js";

export class Panels {
  constructor() {
    const cross = new Cross();
    this.charts = [
      new Chart({
        title: "Throughput", unit: "jobs/s", format: rate, least: 1, cross, headline: (point) => rate(point.succeeded),
        lines: [{ name: "succeeded", label: "succeeded", tone: "accent", fill: true }],
      }),
      new Chart({
        title: "Lateness", unit: "p99", format: span, ceiling: roundTime, least: 0.05, cross, headline: (point) => span(point.lateness_p99),
        lines: [{ name: "lateness_p99", label: "99 of 100 start within", tone: "accent", dashed: true }, { name: "lateness_p50", label: "half", tone: "busy", fill: true }],
      }),
      new Chart({
        title: "Failures", unit: "failed/s", format: rate, least: 0.2, cross, headline: (point) => rate(point.failed),
        lines: [{ name: "failed", label: "failed for good", tone: "bad", fill: true }, { name: "retried", label: "to be retried", tone: "busy" }],
      }),
      new Chart({
        title: "Queue age", unit: "", format: span, ceiling: roundTime, least: 1, cross, headline: (point) => (point.oldest === null ? "nothing waits" : span(point.oldest)),
        lines: [{ name: "age", label: "the first in line has waited", tone: "warn", fill: true }],
      }),
    ];
  }

  show(series) {
    for (const chart of this.charts) chart.show(series.points, ...series.window);
  }
}
