"""Jobs, queues and workers seen as a whole: what operators look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from holdfast.model.lifecycle import LEASED, WAITING, State
from holdfast.model.records import QueueCount, WorkerRecord
from holdfast.model.timing import moment


@dataclass(frozen=True, slots=True)
class Counts:
    """How many jobs: by state, and in the six groups of a dashboard.

    `queued` is due now, `scheduled` due later, `in_progress` claimed or running, `failed` failed or dlq. Of
    those queued, `parked` are held back by a limit, a sequence, or other jobs.
    """

    by_state: Mapping[State, int]
    queued: int
    scheduled: int
    in_progress: int
    completed: int
    failed: int
    cancelled: int
    parked: int

    @classmethod
    def of(cls, counts: Iterable[QueueCount]) -> Self:
        by_state = dict.fromkeys(State, 0)
        due = parked = 0
        for each in counts:
            by_state[each.state] += each.count
            due += each.due + each.parked
            parked += each.parked
        return cls(
            by_state=by_state,
            queued=due,
            scheduled=sum(by_state[state] for state in WAITING) - due,
            in_progress=sum(by_state[state] for state in LEASED),
            completed=by_state[State.SUCCESS],
            failed=by_state[State.FAILED] + by_state[State.DLQ],
            cancelled=by_state[State.CANCELLED],
            parked=parked,
        )


@dataclass(frozen=True, slots=True)
class Stats(Counts):
    """The counts of all jobs, and of each queue."""

    by_queue: Mapping[str, Counts]

    @classmethod
    def of(cls, counts: Iterable[QueueCount]) -> Self:
        counts = list(counts)
        total = Counts.of(counts)
        queues = sorted({each.queue for each in counts})
        return cls(
            by_state=total.by_state,
            queued=total.queued,
            scheduled=total.scheduled,
            in_progress=total.in_progress,
            completed=total.completed,
            failed=total.failed,
            cancelled=total.cancelled,
            parked=total.parked,
            by_queue={queue: Counts.of(each for each in counts if each.queue == queue) for queue in queues},
        )


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """A queue: whether it is paused, and its jobs."""

    name: str
    paused: bool
    counts: Counts
    paused_since: datetime | None = None
    oldest: float | None = None


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker, as it last told."""

    id: str
    host: str
    pid: int
    queues: Sequence[str]
    tasks: Sequence[str]
    concurrency: int
    version: str
    started: datetime
    seen: datetime
    live: bool

    @classmethod
    def from_record(cls, record: WorkerRecord) -> WorkerInfo:
        return cls(
            id=record.id,
            host=record.host,
            pid=record.pid,
            queues=record.queues,
            tasks=record.tasks,
            concurrency=record.concurrency,
            version=record.version,
            started=moment(record.started),
            seen=moment(record.seen),
            live=record.live,
        )
