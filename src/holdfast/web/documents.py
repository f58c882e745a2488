"""What answers show of jobs, queues, workers, and of all at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from holdfast.engine.leader import LeaderInfo
from holdfast.model.job import Attempt, Job
from holdfast.model.lifecycle import Ending, State
from holdfast.model.limits import LimitInfo
from holdfast.model.masking import mask
from holdfast.model.overview import Counts, QueueInfo, Stats
from holdfast.model.records import JobRecord


class JobDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A job, without its arguments and its result. The token is text: it has more digits than a double."""

    id: str
    task: str
    queue: str
    state: State
    priority: int
    due: datetime
    run: int
    failures: int
    lost: int
    version: int
    token: str
    worker: str | None
    key: str | None
    tags: tuple[str, ...]
    created: datetime
    started: datetime | None
    finished: datetime | None
    reason: str | None
    error: str | None
    progress: float | None
    progress_note: str | None
    cancel_asked: bool
    limit_key: str | None
    fair_key: str | None
    sequence_key: str | None
    expires: datetime | None
    parked: str | None


class AttemptDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a job that has ended."""

    run: int
    token: str
    worker: str
    started: datetime | None
    finished: datetime
    outcome: Ending
    reason: str | None
    error: str | None


class QueueDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A queue. `oldest` is how many seconds the first of its due jobs has waited, None if none waits."""

    name: str
    paused: bool
    paused_since: datetime | None
    counts: Counts
    oldest: float | None
    weight: float
    limit: LimitInfo | None


class LeaderDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Who fires schedules, in which term, and for how many seconds unless that is prolonged."""

    worker: str
    term: str
    left: float


class Crowd(msgspec.Struct, frozen=True, kw_only=True):
    """The workers: how many are live and dead, and of the slots of the live ones, how many are busy."""

    live: int
    dead: int
    slots: int
    busy: int


class ScheduleSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The schedules; `more` says that there are more than were looked at."""

    total: int
    paused: int
    next: datetime | None
    more: bool


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """Everything at a glance, as it stood at `now`."""

    now: datetime
    stats: Stats
    queues: list[QueueDocument]
    workers: Crowd
    leader: LeaderDocument | None
    schedules: ScheduleSummary
    dlq: int


def job_document(job: Job[Any]) -> JobDocument:
    facts = job.facts()
    facts["token"] = str(job.token)
    for name in ("reason", "error", "progress_note"):
        facts[name] = _masked(facts[name])
    return JobDocument(**facts)


def record_document(record: JobRecord) -> JobDocument:
    return job_document(Job[Any].from_record(record))


def attempt_document(attempt: Attempt) -> AttemptDocument:
    return AttemptDocument(
        run=attempt.run,
        token=str(attempt.token),
        worker=attempt.worker,
        started=attempt.started,
        finished=attempt.finished,
        outcome=attempt.outcome,
        reason=_masked(attempt.reason),
        error=_masked(attempt.error),
    )


def queue_documents(queues: Sequence[QueueInfo], limits: Mapping[str, LimitInfo]) -> list[QueueDocument]:
    """The queues, each with the limit and the weight that was set for it."""
    return [
        QueueDocument(
            name=queue.name,
            paused=queue.paused,
            paused_since=queue.paused_since,
            counts=queue.counts,
            oldest=queue.oldest,
            weight=1.0 if (limit := limits.get(queue.name)) is None else limit.weight,
            limit=limit,
        )
        for queue in queues
    ]


def leader_document(leader: LeaderInfo | None) -> LeaderDocument | None:
    if leader is None:
        return None
    return LeaderDocument(worker=leader.worker, term=str(leader.term), left=leader.left)


def stats_of(queues: Sequence[QueueInfo]) -> Stats:
    """The counts of all queues together, without asking for them again."""
    by_state = {state: sum(queue.counts.by_state[state] for queue in queues) for state in State}
    return Stats(
        by_state=by_state,
        queued=sum(queue.counts.queued for queue in queues),
        scheduled=sum(queue.counts.scheduled for queue in queues),
        in_progress=sum(queue.counts.in_progress for queue in queues),
        completed=sum(queue.counts.completed for queue in queues),
        failed=sum(queue.counts.failed for queue in queues),
        cancelled=sum(queue.counts.cancelled for queue in queues),
        parked=sum(queue.counts.parked for queue in queues),
        exact=all(queue.counts.exact for queue in queues),
        by_queue={queue.name: queue.counts for queue in queues},
    )


def _masked(text: str | None) -> str | None:
    return None if text is None else mask(text)
