"""The last minutes as points: what a chart or a sparkline draws, of the whole and of each queue."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from holdfast.model.overview import Counts
from holdfast.model.pulse import NOTHING, Pace, Rates

MOST_QUEUES = 200
"""So many queues have points of their own in one sample: those in which most happens."""


class Queue(Protocol):
    """A queue: its jobs, and how long the first of them waits."""

    @property
    def name(self) -> str: ...
    @property
    def counts(self) -> Counts: ...
    @property
    def oldest(self) -> float | None: ...


@dataclass(frozen=True, slots=True)
class Point:
    """How it stood at one moment. Rates are per second, lateness and the oldest wait in seconds."""

    at: datetime
    succeeded: float = 0.0
    failed: float = 0.0
    retried: float = 0.0
    lateness_p50: float | None = None
    lateness_p99: float | None = None
    queued: int = 0
    in_progress: int = 0
    oldest: float | None = None


class Series:
    """The newest samples, at most `keep` of them."""

    def __init__(self, keep: int = 450) -> None:
        self._samples: deque[tuple[Point, Mapping[str, Point]]] = deque(maxlen=keep)

    def add(self, at: datetime, queues: Iterable[Queue], pace: Pace) -> Point:
        """Takes one sample; the point of the whole."""
        queues = list(queues)
        whole = _point(at, queues, pace.total)
        busiest = sorted(queues, key=lambda each: _business(each, pace), reverse=True)[:MOST_QUEUES]
        each = {queue.name: _point(at, [queue], pace.by_queue.get(queue.name, NOTHING)) for queue in busiest}
        self._samples.append((whole, each))
        return whole

    def points(self, queue: str | None = None, since: datetime | None = None) -> list[Point]:
        """Oldest first, of all queues or of one. Of a queue that was not there, points without anything."""
        samples = [each for each in self._samples if since is None or each[0].at >= since]
        if queue is None:
            return [whole for whole, _ in samples]
        return [queues.get(queue) or Point(whole.at) for whole, queues in samples]


def _business(queue: Queue, pace: Pace) -> tuple[float, float]:
    rates = pace.by_queue.get(queue.name, NOTHING)
    return (rates.claimed + rates.succeeded + rates.failed, queue.counts.queued + queue.counts.in_progress)


def _point(at: datetime, queues: list[Queue], rates: Rates) -> Point:
    return Point(
        at,
        succeeded=rates.succeeded,
        failed=rates.failed,
        retried=rates.retried,
        lateness_p50=rates.lateness_p50,
        lateness_p99=rates.lateness_p99,
        queued=sum(each.counts.queued for each in queues),
        in_progress=sum(each.counts.in_progress for each in queues),
        oldest=max((each.oldest for each in queues if each.oldest is not None), default=None),
    )
