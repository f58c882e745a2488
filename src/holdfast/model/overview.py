"""Jobs, queues and workers seen as a whole: what operators look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

from holdfast.model.lifecycle import LEASED, WAITING, State
from holdfast.model.locking import is_internal
from holdfast.model.records import HeldLock, QueueCount, QueueRecord, WorkerRecord
from holdfast.model.report import WorkerReport, decode_report
from holdfast.model.timing import SECOND, moment


@dataclass(frozen=True, slots=True)
class Counts:
    """How many jobs: by state, and in the six groups of a dashboard. Unless `exact`, estimated where many.

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
    exact: bool = True

    @classmethod
    def of(cls, counts: Iterable[QueueCount]) -> Self:
        by_state = dict.fromkeys(State, 0)
        due = parked = 0
        exact = True
        for each in counts:
            exact = exact and each.exact
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
            exact=exact,
        )


@dataclass(frozen=True, slots=True)
class Stats(Counts):
    """The counts of all jobs, and of each queue."""

    by_queue: Mapping[str, Counts] = field(default_factory=dict[str, Counts])

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
            exact=total.exact,
            by_queue={queue: Counts.of(each for each in counts if each.queue == queue) for queue in queues},
        )


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """A queue: whether it is paused, and its jobs.

    `oldest` is for how many seconds those have waited at most that come first in their priority; None if none
    waits. What a limit, a sequence or other jobs hold back is `parked`, and does not count there.
    """

    name: str
    paused: bool
    counts: Counts
    paused_since: datetime | None = None
    oldest: float | None = None

    @classmethod
    def of(cls, record: QueueRecord, counts: Counts) -> QueueInfo:
        return cls(
            name=record.name,
            paused=record.paused,
            counts=counts,
            paused_since=None if record.paused_since is None else moment(record.paused_since),
            oldest=None if record.oldest is None else record.oldest / SECOND,
        )


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker, as it last told; `report` is how it stood a few seconds ago, None if it has not told yet."""

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
    report: WorkerReport | None = None

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
            report=None if record.report is None else decode_report(record.report, record.reported),
        )


@dataclass(frozen=True, slots=True)
class LockInfo:
    """A lock that is held: by whom, under which token, and for how many seconds unless it is renewed.

    So many `waiters` stand in line for it. One that is `internal` is Holdfast's own, such as the leader's; it
    may be held in each `partition`, if there are several.
    """

    name: str
    owner: str
    token: int
    left: float
    waiters: int
    internal: bool
    partition: str | None = None

    @classmethod
    def from_record(cls, record: HeldLock, partition: str | None = None) -> LockInfo:
        return cls(
            name=record.name,
            owner=record.owner.rpartition("/")[0] or record.owner,
            token=record.token,
            left=record.left / SECOND,
            waiters=record.waiters,
            internal=is_internal(record.name),
            partition=partition,
        )
