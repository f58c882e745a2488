"""What successive reports of workers say about now: how much per second, and how late.

A worker reports what it has counted since it started. The difference between two of its reports, over the
time between them, is its pace; that of a queue or of the whole is the sum over workers. Pure: whoever looks
brings the reports and a clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate
from operator import add, sub
from typing import Protocol

_PATIENCE = 3
"""So many times the usual time between two reports may pass before a worker counts as silent."""
_LEAST_PATIENCE = 10.0
_REMEMBERED = 600.0
"""A worker that is not listed for so many seconds is forgotten; a partition may be away for a while."""
_SLACK = 0.8
"""What the clocks of a store and of whoever looks may differ by, over one report."""


class Spread(Protocol):
    """How many values fell at or below each bound and above the one before; the last, above all."""

    @property
    def counts(self) -> Sequence[int]: ...


class Counted(Protocol):
    """What a worker has counted in one queue since it started."""

    @property
    def claimed(self) -> int: ...
    @property
    def success(self) -> int: ...
    @property
    def retried(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def lateness(self) -> Spread: ...


class Report(Protocol):
    """What a worker told last, and when by the store's clock."""

    @property
    def at(self) -> datetime: ...
    @property
    def by_queue(self) -> Mapping[str, Counted]: ...


class Reporting(Protocol):
    """A worker, as the store knows it."""

    @property
    def id(self) -> str: ...
    @property
    def started(self) -> datetime: ...
    @property
    def live(self) -> bool: ...
    @property
    def report(self) -> Report | None: ...


BOUNDS = (
    *(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
    *(30.0, 60.0, 300.0, 1800.0, 3600.0),
)


@dataclass(frozen=True, slots=True)
class Rates:
    """What happens per second, and how late the jobs were that were claimed lately, as a spread."""

    claimed: float = 0.0
    succeeded: float = 0.0
    retried: float = 0.0
    failed: float = 0.0
    lateness: tuple[int, ...] = ()

    def __add__(self, other: Rates) -> Rates:
        return Rates(
            self.claimed + other.claimed,
            self.succeeded + other.succeeded,
            self.retried + other.retried,
            self.failed + other.failed,
            _summed(self.lateness, other.lateness),
        )

    @property
    def lateness_p50(self) -> float | None:
        return quantile(self.lateness, 0.5)

    @property
    def lateness_p99(self) -> float | None:
        return quantile(self.lateness, 0.99)


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

    def take(self, workers: Iterable[Reporting], now: float) -> Pace:
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

    def _follow(self, worker: Reporting, report: Report, now: float) -> _Worker:
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
            is_same = worker.started == known.started
            counts = _since(known.report, report) if is_same else _counts(report)
            known.step(_Step(span, counts), self._window)
            known.started, known.report, known.seen = worker.started, report, now
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

    def __init__(self, started: datetime, report: Report, now: float) -> None:
        self.started = started
        self.report = report
        self.seen = self.listed = now
        self.steps: deque[_Step] = deque()

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
    return Rates(claimed / span, success / span, retried / span, failed / span, tuple(lateness))


def _counts(report: Report) -> dict[str, Counts]:
    return {
        queue: (each.claimed, each.success, each.retried, each.failed, *each.lateness.counts)
        for queue, each in report.by_queue.items()
    }


def _since(before: Report, report: Report) -> dict[str, Counts]:
    """What a report has more than the one before; all of it if counting has begun anew in between."""
    old, new = _counts(before), _counts(report)
    more = {queue: tuple(map(sub, each, old.get(queue, (0,) * len(each)))) for queue, each in new.items()}
    has_begun_anew = not old.keys() <= new.keys() or any(n < 0 for each in more.values() for n in each)
    return new if has_begun_anew else more


def _summed(one: Counts, other: Counts) -> Counts:
    return tuple(map(add, one, other)) if one and other else one or other


def quantile(counts: Sequence[int], share: float, bounds: Sequence[float] = BOUNDS) -> float | None:
    """The value below which that share of all lies, taken as even inside a bucket; None of nothing.

    Of what lies above all bounds only the last one is known.
    """
    total = sum(counts)
    if not total:
        return None
    rank = share * total
    bucket, below = 0, 0
    for bucket, upto in enumerate(accumulate(counts)):
        if upto >= rank and counts[bucket]:
            break
        below = upto
    if bucket >= len(bounds):
        return bounds[-1]
    low = bounds[bucket - 1] if bucket else 0.0
    return low + (bounds[bucket] - low) * (rank - below) / counts[bucket]
