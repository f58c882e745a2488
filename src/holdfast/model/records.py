"""The values that cross the seam between engine and stores.

Times are microseconds; instants are the store's.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from holdfast.model.events import NewEvent
from holdfast.model.flow import Flow, NewFlow, as_flow
from holdfast.model.lifecycle import Ending, Path, State


class NewJob(msgspec.Struct, kw_only=True, frozen=True, gc=False):
    """A job to be stored.

    It is due at `due`, an instant, when that is given, else `delay` after the store's now. `key` is held
    while the job is live and for `key_ttl` from now. `lease`, `timeout` and `retry` override what worker and
    task say. `fresh` says that the id is new and was never sent to a store, so that a store need not look for
    it among finished jobs. `flow` is None for a job that waits for nothing but its turn.
    """

    id: str
    task: str
    queue: str
    payload: bytes
    priority: int = 0
    due: int | None = None
    delay: int = 0
    key: str | None = None
    key_ttl: int = 0
    tags: tuple[str, ...] = ()
    lease: int | None = None
    timeout: int | None = None
    retry: bytes | None = None
    headers: bytes | None = None
    fresh: bool = False
    flow: NewFlow | None = None


def as_repeated(jobs: Sequence[NewJob]) -> list[NewJob]:
    """The jobs as they are sent again: they may be stored, and even finished, by now."""
    return [msgspec.structs.replace(job, fresh=False) for job in jobs]


class JobRecord(msgspec.Struct, gc=False):
    """A job as it stands in the store.

    Mutable, because the worker keeps it up to date while it holds the lease. Stores may make it from values
    in the order of its fields, which is much cheaper than by name.
    """

    id: str
    task: str
    queue: str
    payload: bytes
    state: State
    priority: int
    due: int
    created: int
    run: int = 0
    failures: int = 0
    lost: int = 0
    suspect: bool = False
    version: int = 1
    token: int = 0
    worker: str | None = None
    lease_until: int | None = None
    lease: int | None = None
    timeout: int | None = None
    retry: bytes | None = None
    headers: bytes | None = None
    key: str | None = None
    tags: tuple[str, ...] = ()
    started: int | None = None
    finished: int | None = None
    cancel_asked: bool = False
    progress: float | None = None
    progress_note: str | None = None
    reason: str | None = None
    error: str | None = None
    result: bytes | None = None
    damaged: str | None = None
    """What in the stored row could not be read; such a job is dead-lettered as undecodable."""
    flow: Flow | None = None


def as_added(job: NewJob, now: int) -> JobRecord:
    """The job as it stands once it was added at that instant."""
    return JobRecord(
        job.id,
        job.task,
        job.queue,
        job.payload,
        State.SCHEDULED,
        job.priority,
        now + job.delay if job.due is None else job.due,
        now,
        lease=job.lease,
        timeout=job.timeout,
        retry=job.retry,
        headers=job.headers,
        key=job.key,
        tags=job.tags,
        flow=None if job.flow is None else as_flow(job.flow, now),
    )


class AttemptRecord(msgspec.Struct, kw_only=True, frozen=True, gc=False):
    """One ended attempt."""

    job: str
    run: int
    token: int
    worker: str
    started: int | None
    finished: int
    outcome: Ending
    reason: str | None = None
    error: str | None = None


class Added(msgspec.Struct, kw_only=True, frozen=True):
    """The answer for one job of an `add`: the job that now stands there, and whether this call made it.

    `conflict` is "key" or "id" when what stands there is other work; then nothing was stored.
    """

    record: JobRecord
    created: bool
    conflict: str | None = None


class Move(msgspec.Struct, kw_only=True, gc=False):
    """A guarded change of a leased job along a checked path.

    `outcome` ends the attempt; None leaves it going on (a start). `elapsed` is how long ago the handler
    started, None if it never did. `delay` sets the due time of a job that will wait again, None leaves it as
    it was. The counters are the new values. `children` are added in the same write, and so are `events`,
    which only a move that ends an attempt has. A move with `if_expired` is a reclaim: it needs the lease to
    have expired and does not ask who the holder is.
    """

    job: str
    token: int
    path: Path
    outcome: Ending | None = None
    elapsed: int | None = None
    delay: int | None = None
    failures: int = 0
    lost: int = 0
    suspect: bool = False
    reason: str | None = None
    error: str | None = None
    result: bytes | None = None
    children: tuple[NewJob, ...] = ()
    events: tuple[NewEvent, ...] = ()
    if_expired: bool = False


class Verdict(StrEnum):
    """What became of a move."""

    ACCEPTED = "accepted"
    REFUSED = "refused"


class Want(msgspec.Struct, kw_only=True, frozen=True):
    """What a worker would claim: up to `limit` jobs, queues served in this order, of these tasks only.

    For as long as it `stands`, counted from the store's now, the store may keep what it could not fulfil, and
    hand over jobs that are added later.
    """

    queues: tuple[str, ...]
    tasks: frozenset[str]
    limit: int
    lease: int
    stands: int = 0


class Tick(msgspec.Struct, kw_only=True):
    """One exchange of a worker with the store.

    `repeat` marks the resending of a tick whose answer was lost. `stood` is the seq of the worker's tick
    whose want stood until now, as far as it knows.
    """

    worker: str
    seq: int
    moves: list[Move]
    want: Want | None = None
    repeat: bool = False
    stood: int | None = None


class Ticked(msgspec.Struct, kw_only=True):
    """The answer to a tick.

    `verdicts` are in the order of the moves. `cancel_asked` are the (job, token) pairs that this worker
    holds after the tick and that were asked to stop, by job. `paused` are those of the wanted queues that
    are paused, `paused_tasks` those of the wanted tasks. `next_due` is how long until the next job that is
    not due yet is, of any task, in the wanted queues that are not paused, or until a rate lets one more
    through; None if there is none. `registered` is False when the store does not know the
    worker as live; then nothing was claimed. `handed` tells how many of the claimed jobs, the first ones,
    were claimed for the want that stood, and `handed_ago` how long before, if that is known. `stands` tells
    that the store keeps the rest of this want.
    """

    verdicts: list[Verdict]
    claimed: list[JobRecord]
    cancel_asked: list[tuple[str, int]]
    paused: frozenset[str]
    next_due: int | None
    registered: bool
    handed: int = 0
    handed_ago: int | None = None
    stands: bool = False
    paused_tasks: frozenset[str] = frozenset()


class Handed(msgspec.Struct, kw_only=True, frozen=True):
    """Jobs that were claimed for a want that stands no longer: the one of this worker's tick `seq`.

    That was done `after` so many microseconds of the store's clock. Without jobs it is a hint to ask.
    """

    worker: str
    seq: int
    after: int
    claimed: list[JobRecord]


class Extension(msgspec.Struct, kw_only=True, frozen=True, gc=False):
    """A wish to keep a lease for `lease` more, counted from the store's now.

    `elapsed` tells how long ago the handler started, so that a long job is shown running; `progress` and its
    note are the last report, and replace the one before if either is given.
    """

    job: str
    token: int
    lease: int
    elapsed: int | None = None
    progress: float | None = None
    progress_note: str | None = None


class Held(StrEnum):
    """What became of the wish to keep a lease."""

    HELD = "held"
    LOST = "lost"
    CANCEL_ASKED = "cancel_asked"


class Edit(msgspec.Struct, kw_only=True, frozen=True):
    """A change to a job that no worker moves. What is None stays as it is.

    With a `path` the job must stand at its first state and goes to its last. Without one it must be
    scheduled, retry or dlq. `due`, an instant, goes before `delay`, counted from the store's now. `key` is
    held for `key_ttl` from now. `ask_cancel` is the one edit for a leased job: it asks the holder to stop,
    and changes nothing else.
    """

    path: Path = ()
    queue: str | None = None
    priority: int | None = None
    due: int | None = None
    delay: int | None = None
    tags: tuple[str, ...] | None = None
    failures: int | None = None
    lost: int | None = None
    suspect: bool | None = None
    reason: str | None = None
    key: str | None = None
    key_ttl: int = 0
    ask_cancel: bool = False


class Query(msgspec.Struct, kw_only=True, frozen=True):
    """Which jobs to find; newest id first, after `cursor`, the last id of the page before.

    No states means all. `worker` is the one that holds the job. Due times go from `due_after`, inclusive, to
    `due_before`, exclusive.
    """

    states: frozenset[State] = frozenset()
    queue: str | None = None
    task: str | None = None
    tag: str | None = None
    worker: str | None = None
    due_after: int | None = None
    due_before: int | None = None
    cursor: str | None = None
    limit: int = 50


class QueueCount(msgspec.Struct, kw_only=True, frozen=True):
    """How many jobs of a queue are in a state.

    Of those that wait, `due` are ready now, and `parked` are held back by a limit, a sequence, or other jobs.
    One that is not `exact` is an estimate.
    """

    queue: str
    state: State
    count: int
    due: int = 0
    parked: int = 0
    exact: bool = True


class WorkerRecord(msgspec.Struct, kw_only=True, frozen=True):
    """A worker as it registers: who it is, what it serves, which tasks it knows.

    `report` is the last that it told with a beat, and `reported` when; None and 0 if it never did.
    """

    id: str
    host: str
    pid: int
    queues: tuple[str, ...]
    tasks: tuple[str, ...]
    concurrency: int
    version: str = ""
    started: int = 0
    seen: int = 0
    live: bool = True
    report: bytes | None = None
    reported: int = 0


class QueueRecord(msgspec.Struct, kw_only=True, frozen=True):
    """A queue: whether it is paused, since when, and how long the first of its jobs have waited at most."""

    name: str
    paused: bool
    paused_since: int | None = None
    oldest: int | None = None


class LockWish(msgspec.Struct, kw_only=True, frozen=True):
    """A wish to hold a lock for `ttl`. Each has an owner of its own, and keeps it when it is repeated.

    With a `place` an owner that cannot have the lock at once stands in line, for as long as that unless it
    asks again.
    """

    name: str
    owner: str
    ttl: int
    place: int = 0


class LockAnswer(msgspec.Struct, kw_only=True, frozen=True):
    """The token of the grant; else None, and how long until it could be granted if nobody did anything."""

    token: int | None
    after: int = 0


class LockHolder(msgspec.Struct, kw_only=True, frozen=True):
    """Who holds a lock, under which token, and for how long unless it is renewed."""

    owner: str
    token: int
    left: int


class HeldLock(msgspec.Struct, kw_only=True, frozen=True):
    """A lock that is held, as `LockHolder` tells it, and how many stand in line for it."""

    name: str
    owner: str
    token: int
    left: int
    waiters: int


class LockHold(msgspec.Struct, kw_only=True, frozen=True):
    """One holding of a lock that shall last for `ttl` more, counted from the store's now."""

    name: str
    owner: str
    token: int
    ttl: int
