"""What a worker tells of itself with its beats: how busy it is, and what became of the jobs that it claimed.

Stores keep it as they get it. Whoever reads it may be older or newer than the worker.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from datetime import datetime

import msgspec
from msgspec.structs import replace

from holdfast.model.timing import EPOCH, moment

BOUNDS = (
    0.001,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
    1800.0,
    3600.0,
)
"""Upper bounds of distributions, in seconds: from a handler that does nothing to one that takes an hour."""

MOST_QUEUES = 64
"""So many queues does a worker tell apart."""

OTHER = "(other)"
"""Stands for all the others. No queue can be called so."""

_NOTHING: tuple[int, ...] = (0,) * (len(BOUNDS) + 1)


class Lateness(msgspec.Struct, kw_only=True, frozen=True):
    """How long after they were due jobs were claimed, by the store's clock.

    `counts` tells how many fell at or below each of the BOUNDS and above the one before, the last above all;
    `sum` is that of the seconds.
    """

    counts: tuple[int, ...] = _NOTHING
    sum: float = 0.0

    @property
    def count(self) -> int:
        return sum(self.counts)

    def plus(self, other: Lateness) -> Lateness:
        return Lateness(
            counts=tuple(map(int.__add__, self.counts, other.counts)),
            sum=self.sum + other.sum,
        )

    def minus(self, earlier: Lateness) -> Lateness:
        """What has come since; nothing is ever below 0."""
        pairs = zip(self.counts, earlier.counts, strict=True)
        return Lateness(
            counts=tuple(max(0, now - then) for now, then in pairs), sum=max(0.0, self.sum - earlier.sum)
        )

    def quantile(self, share: float) -> float | None:
        """The value that this share of them does not exceed, as far as the bounds can tell; None of none.

        What is above all bounds counts as the last of them.
        """
        rank = share * self.count
        below = 0
        for place, bound in enumerate(BOUNDS):
            here = self.counts[place]
            if here and below + here >= rank:
                low = BOUNDS[place - 1] if place else 0.0
                return low + (bound - low) * max(0.0, rank - below) / here
            below += here
        return BOUNDS[-1] if self.count else None


class QueueReport(msgspec.Struct, kw_only=True, frozen=True):
    """What became of a queue's jobs in one worker since it started.

    Of what it claimed, so many succeeded, are to be tried again, and failed for good. What it gave back, lost
    or cancelled is counted nowhere else.
    """

    claimed: int = 0
    success: int = 0
    retried: int = 0
    failed: int = 0
    lateness: Lateness = Lateness()

    def plus(self, other: QueueReport) -> QueueReport:
        return QueueReport(
            claimed=self.claimed + other.claimed,
            success=self.success + other.success,
            retried=self.retried + other.retried,
            failed=self.failed + other.failed,
            lateness=self.lateness.plus(other.lateness),
        )

    def minus(self, earlier: QueueReport) -> QueueReport:
        """What has come since; nothing is ever below 0."""
        return QueueReport(
            claimed=max(0, self.claimed - earlier.claimed),
            success=max(0, self.success - earlier.success),
            retried=max(0, self.retried - earlier.retried),
            failed=max(0, self.failed - earlier.failed),
            lateness=self.lateness.minus(earlier.lateness),
        )


class WorkerReport(msgspec.Struct, kw_only=True, frozen=True):
    """A worker as it stood `at` an instant of the store.

    Of its `slots` so many are `busy`, and of these so many `stuck`: their code does not end though it was
    told to. `waiting` jobs are claimed and wait for a slot. It is `claiming` while it asks for work when it
    has room. `oldest_run` is how many seconds the longest running attempt has run. Of more than MOST_QUEUES
    queues the rest is told together, as OTHER.
    """

    at: datetime = EPOCH
    slots: int = 0
    busy: int = 0
    stuck: int = 0
    waiting: int = 0
    claiming: bool = False
    oldest_run: float | None = None
    by_queue: dict[str, QueueReport] = {}

    @property
    def total(self) -> QueueReport:
        """All queues together."""
        return _sum(self.by_queue.values())

    @property
    def is_full(self) -> bool:
        """Whether no slot is free."""
        return self.busy >= self.slots


class _Told(msgspec.Struct, kw_only=True, frozen=True):
    """As it is stored: with the bounds, since another version may have others."""

    report: WorkerReport
    bounds: tuple[float, ...] = BOUNDS


_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.Decoder(_Told).decode


def encode_report(report: WorkerReport) -> bytes:
    return _encode(_Told(report=report))


def decode_report(told: bytes, at: int) -> WorkerReport | None:
    """The report that the store got at that instant; None for one that cannot be read."""
    try:
        found = _decode(told)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    report = replace(found.report, at=moment(at))
    if found.bounds == BOUNDS and all(
        len(each.lateness.counts) == len(_NOTHING) for each in report.by_queue.values()
    ):
        return report
    queues = {
        queue: replace(each, lateness=_spread_anew(each.lateness, found.bounds))
        for queue, each in report.by_queue.items()
    }
    return replace(report, by_queue=queues)


def merged(reports: Iterable[WorkerReport]) -> WorkerReport:
    """What the parts of one worker tell, each of its partition. The slots are the same for all."""
    told = list(reports)
    queues: dict[str, QueueReport] = {}
    for report in told:
        for queue, each in report.by_queue.items():
            known = queues.get(queue)
            queues[queue] = each if known is None else known.plus(each)
    runs = [report.oldest_run for report in told if report.oldest_run is not None]
    return WorkerReport(
        at=max(report.at for report in told),
        slots=max(report.slots for report in told),
        busy=sum(report.busy for report in told),
        stuck=sum(report.stuck for report in told),
        waiting=sum(report.waiting for report in told),
        claiming=any(report.claiming for report in told),
        oldest_run=max(runs, default=None),
        by_queue=queues,
    )


def _sum(reports: Iterable[QueueReport]) -> QueueReport:
    total = QueueReport()
    for each in reports:
        total = total.plus(each)
    return total


def _spread_anew(lateness: Lateness, bounds: tuple[float, ...]) -> Lateness:
    """The counts of other bounds by our own; each goes where its upper bound belongs."""
    counts: list[int] = list(_NOTHING)
    uppers = [bisect_left(BOUNDS, bound) for bound in bounds]
    for place, count in enumerate(lateness.counts):
        counts[uppers[place] if place < len(uppers) else -1] += count
    return Lateness(counts=tuple(counts), sum=lateness.sum)
