"""The state of the whole, as it was last told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any

from holdfast.engine.leader import LeaderInfo
from holdfast.model.job import Job
from holdfast.model.lifecycle import State
from holdfast.model.overview import Counts, LockInfo, QueueInfo, WorkerInfo
from holdfast.model.plan import ScheduleInfo
from holdfast.model.pulse import NOTHING, STILL, Pace, Rates
from holdfast.model.series import Point
from holdfast.store.circuit import CircuitReport


class Part(Enum):
    """What can be asked for by itself."""

    QUEUES = "queues"
    WORKERS = "workers"
    LEADERS = "leaders"
    SCHEDULES = "schedules"
    RUNNING = "running"
    DEAD = "dead letters"
    LOCKS = "locks"
    JOBS = "jobs"


@dataclass(frozen=True, slots=True)
class Way:
    """What is known of the way to the store.

    `answered` is how long its last answer took, None if it has given none; `fault` says why the last look
    failed, and `away` for how many seconds none has succeeded. `missing` are partitions that do not answer,
    and why.
    """

    answered: float | None = None
    fault: str | None = None
    away: float = 0.0
    circuits: Mapping[str, CircuitReport] = field(default_factory=dict[str, CircuitReport])
    missing: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Picture:
    """What was told last, each part by itself; `told` names those that were told at all.

    `leaders` are by partition, "" if there are none. `pace` is that of the last seconds, `lately` that of the
    last minute, and `points` are the last minutes.
    """

    at: datetime
    store: str
    namespace: str
    way: Way = Way()
    told: frozenset[Part] = frozenset()
    queues: Sequence[QueueInfo] = ()
    workers: Sequence[WorkerInfo] = ()
    leaders: Mapping[str, LeaderInfo | None] = field(default_factory=dict[str, LeaderInfo | None])
    schedules: Sequence[ScheduleInfo] = ()
    running: Sequence[Job[Any]] = ()
    dead: Sequence[Job[Any]] = ()
    locks: Sequence[LockInfo] = ()
    jobs: Sequence[Job[Any]] = ()
    more_jobs: bool = False
    pace: Pace = STILL
    lately: Rates = NOTHING
    points: Sequence[Point] = ()

    @property
    def counts(self) -> Counts:
        """The jobs of all queues."""
        states = [queue.counts.by_state for queue in self.queues]

        def total(of: Callable[[Counts], int]) -> int:
            return sum(of(queue.counts) for queue in self.queues)

        return Counts(
            by_state={state: sum(each.get(state, 0) for each in states) for state in State},
            queued=total(lambda counts: counts.queued),
            scheduled=total(lambda counts: counts.scheduled),
            in_progress=total(lambda counts: counts.in_progress),
            completed=total(lambda counts: counts.completed),
            failed=total(lambda counts: counts.failed),
            cancelled=total(lambda counts: counts.cancelled),
            parked=total(lambda counts: counts.parked),
            exact=all(queue.counts.exact for queue in self.queues),
        )

    @property
    def oldest(self) -> float | None:
        """The longest wait of all queues, in seconds."""
        return max((queue.oldest for queue in self.queues if queue.oldest is not None), default=None)

    @property
    def live(self) -> list[WorkerInfo]:
        return [worker for worker in self.workers if worker.live]

    def held_by(self, worker: str) -> list[Job[Any]]:
        return [job for job in self.running if job.worker == worker]
