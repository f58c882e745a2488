"""What successive reports of workers say about now: how much per second, and how late.

A worker reports what it has counted since it started. The difference between two of its reports, over the
time between them, is its pace; that of a queue or of the whole is the sum over workers. Pure: whoever looks
brings the reports and a clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from operator import add, sub

from holdfast.model.overview import WorkerInfo
from holdfast.model.report import Lateness, WorkerReport

_PATIENCE = 3
"""So many times the usual time between two reports may pass before a worker counts as silent."""
_LEAST_PATIENCE = 10.0
_REMEMBERED = 600.0
"""A worker that is not listed for so many seconds is forgotten; a partition may be away for a while."""
_SLACK = 0.8
"""What the clocks of a store and of whoever looks may differ by, over one report."""


_NONE = Lateness()


@dataclass(frozen=True, slots=True)
class Rates:
    """What happens per second, and how late the jobs were that were claimed lately."""

    claimed: float = 0.0
    succeeded: float = 0.0
    retried: float = 0.0
    failed: float = 0.0
    lateness: Lateness = _NONE

    def __add__(self, other: Rates) -> Rates:
        return Rates(
            self.claimed + other.claimed,
            self.succeeded + other.succeeded,
            self.retried + other.retried,
            self.failed + other.failed,
            self.lateness.plus(other.lateness),
        )

    @property
    def lateness_p50(self) -> float | None:
        return self.lateness.quantile(0.5)

    @property
    def lateness_p99(self) -> float | None:
        return self.lateness.quantile(0.99)


NOTHING = Rates()


@dataclass(frozen=True, slots=True)
class Pace:
    """The rates of the whole, of each queue, and of each worker.

    `known` is False while no worker has reported twice: then nothing can be said yet.
    """

    total: Rates = NOTHING
    by_queue: Mapping[str, Rates] = field(default_factory=dict[str, Rates])
    by_worker: Mapping[str, Rates] = field(default_factory=dict[str, Rates])
    known: bool = False


STILL = Pace()


class Pulse:
    """Takes what workers report, again and again, and tells the pace.

    Rates go over the last two reports of each worker, or over as many as span `window` seconds. What a worker
    did after its last report is never told.
    """

    def __init__(self, window: float = 0.0) -> None:
        self._window = window
        self._known: dict[str, _Worker] = {}
        self._first: float | None = None
        self._last = 0.0

    def take(self, workers: Iterable[WorkerInfo], now: float) -> Pace:
        """The pace at `now`, in seconds of any clock that does not jump."""
        if self._first is None:
            self._first = now
        total, by_queue, by_worker = NOTHING, dict[str, Rates](), dict[str, Rates]()
        is_known = False
        for worker in workers:
            if worker.report is None:
                continue
            followed = self._follow(worker, worker.report, now)
            is_known = is_known or bool(followed.steps)
            if not worker.live or followed.is_silent(now):
                continue
            rates = followed.rates()
            own = sum(rates.values(), NOTHING)
            by_worker[worker.id] = own
            total += own
            for queue, each in rates.items():
                by_queue[queue] = by_queue.get(queue, NOTHING) + each
        self._last = now
        self._known = {name: each for name, each in self._known.items() if now - each.listed <= _REMEMBERED}
        return Pace(total, by_queue, by_worker, is_known)

    def _follow(self, worker: WorkerInfo, report: WorkerReport, now: float) -> _Worker:
        known = self._known.get(worker.id)
        if known is None:
            known = self._known[worker.id] = _Worker(worker.started, report, now)
            age = (report.at - worker.started).total_seconds()
            assert self._first is not None
            if 0 < age <= now - self._first:  # all that it ever did was done while we looked
                known.step(_Step(age, _counts(report)), self._window)
        elif report != known.report and now > known.seen:
            told = (report.at - known.report.at).total_seconds()
            # It was not there at the take before: less than that cannot have passed, unless a clock jumped.
            least = _SLACK * (self._last - known.seen)
            span = told if told > 0 and told >= least else now - known.seen
            known.step(_Step(span, known.count(report, worker.started)), self._window)
            known.report, known.seen = report, now
        known.listed = now
        return known


Counts = tuple[int, ...]
"""What was counted in a queue: claimed, success, retried, failed; then the spread of lateness."""


@dataclass(frozen=True, slots=True)
class _Step:
    """What was counted between two reports, by queue."""

    span: float
    counts: Mapping[str, Counts]


class _Worker:
    """What is known of a worker from its last reports."""

    def __init__(self, started: datetime, report: WorkerReport, now: float) -> None:
        self.report = report
        self._started = started
        self._highest = _counts(report)
        self.seen = self.listed = now
        self.steps: deque[_Step] = deque()

    def count(self, report: WorkerReport, started: datetime) -> dict[str, Counts]:
        """What a report has more than those before.

        Numbers that fall tell of a new start, and all of them are new; but from a worker that has not started
        anew, that a partition which knows the rest does not answer. Then what was known of it counts on.
        """
        told = _counts(report)
        old = {queue: self._highest.get(queue, (0,) * len(each)) for queue, each in told.items()}
        has_fallen = not self._highest.keys() <= told.keys() or any(
            new < before for queue, each in told.items() for new, before in zip(each, old[queue], strict=True)
        )
        is_new = has_fallen and started != self._started
        self._started = started
        if is_new:
            self._highest = told
            return told
        self._highest |= {queue: tuple(map(max, each, old[queue])) for queue, each in told.items()}
        return {queue: tuple(map(sub, self._highest[queue], old[queue])) for queue in told}

    def step(self, step: _Step, window: float) -> None:
        self.steps.append(step)
        while len(self.steps) > 1 and sum(each.span for each in self.steps) - self.steps[0].span >= window:
            self.steps.popleft()

    def is_silent(self, now: float) -> bool:
        usual = self.steps[-1].span if self.steps else 0.0
        return now - self.seen > max(_LEAST_PATIENCE, _PATIENCE * usual)

    def rates(self) -> dict[str, Rates]:
        span = sum(each.span for each in self.steps)
        counts: dict[str, Counts] = {}
        for step in self.steps:
            for queue, each in step.counts.items():
                counts[queue] = _summed(counts.get(queue, ()), each)
        return {queue: _rates(each, span) for queue, each in counts.items()}


def _rates(counts: Counts, span: float) -> Rates:
    claimed, success, retried, failed, *lateness = counts
    return Rates(
        claimed / span, success / span, retried / span, failed / span, Lateness(counts=tuple(lateness))
    )


def _counts(report: WorkerReport) -> dict[str, Counts]:
    return {
        queue: (each.claimed, each.success, each.retried, each.failed, *each.lateness.counts)
        for queue, each in report.by_queue.items()
    }


def _summed(one: Counts, other: Counts) -> Counts:
    return tuple(map(add, one, other)) if one and other else one or other
