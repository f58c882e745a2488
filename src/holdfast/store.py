"""The seam: what a store must do, and every promise that it keeps.

A store keeps data and gives atomic operations. It never decides: retries, delays and states are computed by
the engine and arrive as data. It never reads a worker's clock: durations come in, and the store adds its own
clock in the statement that acts.

Promises that hold for every operation below:

- Atomic: an operation happens whole or not at all; a batch is one transaction unless said otherwise.
- Three outcomes: it returns (done), raises StoreUnavailable (not done), or raises OutcomeUnknown (perhaps
  done).
- Repeatable: every mutating operation may be sent again unchanged: nothing more happens, and the answer tells
  what the first one did. (A tick then says `repeat`, a job no longer `fresh`.) An `edit` is guarded by its
  version instead, and gives None the second time.
- Scoped: a session belongs to one namespace and neither sees nor changes anything of another.
- Bound values: names and payloads are values, never identifiers, and come back exactly as they went in.
- Safe when cancelled: if a caller is cancelled while waiting, the operation is done whole or not at all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from holdfast.model.records import (
    Added,
    AttemptRecord,
    Edit,
    Extension,
    Handed,
    Held,
    JobRecord,
    LockAnswer,
    LockHold,
    LockWish,
    Move,
    NewJob,
    Query,
    QueueCount,
    QueueRecord,
    Tick,
    Ticked,
    Verdict,
    WorkerRecord,
)
from holdfast.model.scheduling import Schedules, ScheduleWrite, Term


class JobStore(Protocol):
    """Live jobs (scheduled, retry, claimed, running) and finished ones (success, failed, dlq, cancelled)."""

    async def add(self, jobs: Sequence[NewJob]) -> list[Added]:
        """Stores jobs; one answer each, in order.

        A job becomes `scheduled`, version 1, token 0, created at the store's now. If its id is already
        stored, live or finished, the stored job is the answer, with conflict "id" if task, queue or payload
        differ. Otherwise, if its key is held, the holder is the answer, with conflict "key" if task or
        payload differ. A key is held while its job is live and until its TTL, counted from that job's
        creation (or from the edit that gave the key), has passed, whichever is later; a deleted or pruned
        job holds nothing. Concurrent callers with one key get one job. Jobs of one batch see each other.
        """
        ...

    async def tick(self, tick: Tick) -> Ticked:
        """Applies moves, then claims: one round trip, one commit.

        Moves, in order. A move is accepted if the job is leased under the move's token, the path is one that
        a holder may take (`move_sources`) with the job's state on it before its end, and the tick's worker
        is the holder; a move with `if_expired` does not ask for the holder but needs a lease that has
        expired (end <= now) at the store's now. A start (no outcome) needs an unexpired lease; it sets
        `started` to now - elapsed and keeps the lease. Any other accepted move ends the attempt: it is
        written to history with its own worker (who held it, not who closed it), token, run, start (the first
        that was recorded, by start, extend or this move), end, outcome, reason and error; the lease is gone;
        failures, lost, suspect, reason, error and result take the move's values. A job that waits again gets
        due = now + delay if delay is given; one that is finished gets `finished` = now. Children are added
        as by `add` with the move, or not at all; a child whose id or key is taken is left out. The version
        rises by one. `cancel_asked` stays until the job is replayed.

        A refused move changes nothing of the job. If history has its (job, token) with the same outcome,
        closed by the same worker, it is a repeat, and the answer is ACCEPTED; so is a start of a job that
        this worker holds under this token and that is running. If history has it as `lost`, and the refused
        move had an outcome, was not `if_expired` and came from the attempt's own worker, that attempt is
        from then on told as `superseded`. One refused move does not touch the others.

        Claim, if wanted and the worker is registered and live. Due jobs (due <= now) become ready; then up
        to `limit` ready jobs of the wanted tasks, queue by queue in the given order, paused ones left out,
        each by priority (lowest number first), due time, id. A claimed job has state claimed, run + 1,
        version + 1, token = max(token + 1, the store's clock in µs), the worker, a lease of its own length
        or the wanted one, and no start, reason or progress left from before. No job is ever given to two
        claimers.

        With `repeat`, if anything is wanted, jobs that this (worker, seq) claimed and still holds are given
        back as they stand, registered or not, and nothing new is claimed if there are any.

        A want that `stands` and was not fulfilled whole may be kept by the store, which then says so, until
        the worker's next tick that names it as `stood` or has one that `stands` too. Meanwhile a job that is
        added and due may be claimed for it, as by a tick of its own: at most once, for as many as are still
        wanted, and not if another waits that would come first. Then the want stands no longer, and its
        session is told (`Handovers`), which may fail. Jobs that were claimed for the want that `stood`, and
        are still held, are given by the tick in any case, whatever else it wants; so are those of this seq,
        if it is a `repeat`. If there are any, nothing new is claimed. Seqs of a worker grow: a want of an
        earlier one never takes the place of a later.
        """
        ...

    async def extend(self, worker: str, extensions: Sequence[Extension]) -> list[Held]:
        """Prolongs leases that are current (token and worker) and unexpired, to now + lease.

        Never shortens one. Shows a claimed job as running, started at now - elapsed, once `elapsed` is
        given, and stores progress. Does not raise the version. An expired lease is LOST even if nobody has
        taken the job yet. CANCEL_ASKED means held, and asked to stop.
        """
        ...

    async def expired(self, limit: int) -> list[JobRecord]:
        """Leased jobs whose lease has expired, oldest expiry first, then by id. Changes nothing."""
        ...

    async def edit(self, job_id: str, version: int, edit: Edit) -> JobRecord | None:
        """Applies an edit if the version is current and the state fits; the job as it then stands, else None.

        A path fits if the job stands at its first state and it is one that an edit may take (`edit_source`).
        A waiting job that is thereby finished gets `finished` = now. A finished job that is replayed becomes
        live again with its token, run and history, and without `finished`, result and `cancel_asked`; it
        takes its key again. Raises the version by one, so a repeat gives None: after an unknown outcome,
        read the job. If the key that is given, or that a replayed job would take again, is held by another
        job, nothing is changed and KeyConflict is raised.
        """
        ...

    async def delete(self, job_id: str) -> bool:
        """Removes a job with its history and key, unless it is leased. True also when it was not there."""
        ...

    async def get(self, job_id: str) -> JobRecord | None:
        """The job, live or finished."""
        ...

    async def states(self, job_ids: Sequence[str]) -> list[JobRecord | None]:
        """The jobs in the order asked for. Cheap enough to be asked often for many."""
        ...

    async def find(self, query: Query) -> list[JobRecord]:
        """Jobs that match, by id, highest first."""
        ...

    async def count(self) -> list[QueueCount]:
        """Counts by queue and state, where there are any, without reading finished jobs one by one."""
        ...

    async def history(self, job_id: str) -> list[AttemptRecord]:
        """Ended attempts of a job, oldest first."""
        ...

    async def prune(self, older_than: int, limit: int) -> int:
        """Removes jobs, with history and keys, that finished more than `older_than` ago; how many.

        Takes the oldest first, up to `limit`. Leaves dlq alone.
        """
        ...


class FleetStore(Protocol):
    """Workers and queues."""

    async def register(self, worker: WorkerRecord, lease: int) -> None:
        """Makes the worker known and live for `lease`. Doing so again replaces what it said before.

        The store sets `seen` to its now, and `started` when the worker was not known.
        """
        ...

    async def beat(self, worker_id: str, lease: int) -> bool:
        """Keeps the worker live for `lease` from now, and `seen`. False if it is not known.

        An expired one is live again.
        """
        ...

    async def retire(self, worker_id: str) -> None:
        """Forgets the worker. Its leases stay until they expire or are released."""
        ...

    async def workers(self) -> list[WorkerRecord]:
        """All known workers by id, the dead ones marked as not live.

        Those dead for a day are forgotten, at the latest by this call.
        """
        ...

    async def pause(self, queue: str) -> None: ...

    async def resume(self, queue: str) -> None: ...

    async def queues(self) -> list[QueueRecord]:
        """Queues that have a live job or were ever paused, by name."""
        ...


class LockStore(Protocol):
    """Named locks: one holder at a time, for a time, under a token.

    Leadership is such a lock, and its term the token. A lock is held until its lease ends (end <= now), and
    free otherwise. A place in line ends likewise; those that have ended count for nothing. Locks that nobody
    holds or waits for take no room for long.
    """

    async def acquire(self, wish: LockWish) -> LockAnswer:
        """Grants a lock that is free, unless somebody else stands in line before the owner.

        The lease ends at now + ttl; the owner leaves the line. The token is max(the last one + 1, the store's
        clock in µs), where the last one is the last of any lock of the namespace, never forgotten. An owner
        that holds the lock gets the token that it has, and its lease is prolonged as by `renew`.

        Otherwise the answer has no token. With `place` the owner then stands in line until now + place: where
        it stood, if its place has not ended, else behind all others. Without, the line is left as it is.
        `after` tells when the lease and all places before the owner's will have ended.
        """
        ...

    async def renew(self, holds: Sequence[LockHold]) -> list[bool]:
        """Prolongs leases that are current (owner and token) and have not ended, to now + ttl.

        True for those. Never shortens one. One that has ended is False, even if nobody has taken the lock.
        """
        ...

    async def release(self, name: str, owner: str, token: int | None) -> None:
        """Frees the lock if owner and token are current, and wakes the first in line.

        Without a token it frees what the owner has, whatever the token, and gives up its place in line; if
        the lock is free, the first who is left is woken. Anything else changes nothing.
        """
        ...

    def listen(self, owner: str, wake: Callable[[], None]) -> Callable[[], None]:
        """Calls `wake`, from any thread, soon after `release` has made it the owner's turn.

        A hint: it may be late, lost, or without reason. A store that cannot tell for now gives an `after`
        that is short enough to ask again instead. Gives back a function that ends the listening.
        """
        ...


class ScheduleStore(Protocol):
    """Recurring work: kept, found when it is time, and written only as it was seen."""

    async def write(self, writes: Sequence[ScheduleWrite], term: Term | None = None) -> list[Verdict] | None:
        """Stores schedules as given, each if its version is still the stored one, which rises by one.

        With each its jobs are added as by `add`, or not at all; one whose id or key is taken is left out. A
        refused write changes nothing and does not touch the others; one whose mark was the last to be
        written, at this very version, is a repeat, and accepted. With a `term`, if that lock is not held by
        that owner under that token at the store's now, nothing is written and the answer is None.
        """
        ...

    async def remove(self, name: str) -> bool:
        """Removes a schedule; its jobs stay. False if there is none of that name, as for a repeat."""
        ...

    async def get(self, names: Sequence[str]) -> Schedules:
        """Those that are stored, in the order asked for."""
        ...

    async def list(self, after: str, limit: int) -> Schedules:
        """Up to `limit` of them by name, the first one behind `after`."""
        ...

    async def due(self, limit: int) -> Schedules:
        """Up to `limit` to be looked at now: by `look_at` (<= now) and name, then by name those that wait.

        One that waits is among them if its job is finished or gone; of many that wait, a call may look at a
        part, and the next calls at the others. `next_look` is how long until the next `look_at`, 0 if more
        than `limit` have come; None if there is none.
        """
        ...


class Wakeups(Protocol):
    """Hints that work may exist. They may be late, lost, or without reason; nothing rests on them."""

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Calls `wake`, from any thread, soon after something was added, became due or was asked to stop.

        Jobs that were claimed in the step that added them need no hint. Gives back a function that ends the
        listening.
        """
        ...


@runtime_checkable
class Handovers(Wakeups, Protocol):
    """Wake-ups of a session whose store claims for wants that stand."""

    def receive(self, take: Callable[[Handed], None]) -> Callable[[], None]:
        """Calls `take`, in the session's event loop, with what was claimed for a want that stood.

        As long as nobody receives, no want of the session stands. Gives back a function that ends it.
        """
        ...


class Migrations(Protocol):
    """The schema: versioned, forward only, safe to apply concurrently."""

    async def pending(self) -> list[str]:
        """Names of the steps that are not applied yet.

        Raises SchemaMismatch if the stored schema is too new.
        """
        ...

    async def apply(self) -> list[str]:
        """Applies what is pending; the names of the steps applied by this call."""
        ...

    def as_sql(self) -> str:
        """All steps as plain SQL for a database administrator."""
        ...


@runtime_checkable
class Roles(Migrations, Protocol):
    """Migrations of a store that knows who is who."""

    def roles_as_sql(self, prefix: str) -> str:
        """Roles for producer, worker and admin, named after the prefix, as SQL that can be run again."""
        ...


class Transactions(Protocol):
    """Work inside a database transaction that somebody else commits. Nothing here ever commits or rolls back.

    Connections may be blocking (the `_sync` forms) or async. Each raises NotInTransaction if none is open.
    """

    def add_in_sync(self, connection: Any, namespace: str, jobs: Sequence[NewJob]) -> list[Added]: ...

    def add_in(self, connection: Any, namespace: str, jobs: Sequence[NewJob]) -> Awaitable[list[Added]]: ...

    def move_in_sync(self, connection: Any, namespace: str, worker: str, move: Move) -> Verdict:
        """The move, guarded as in `tick`, as part of the open transaction."""
        ...

    def move_in(self, connection: Any, namespace: str, worker: str, move: Move) -> Awaitable[Verdict]: ...

    def begin_sync(self) -> AbstractContextManager[Any]:
        """A connection with an open write transaction; commits when left, rolls back on an exception."""
        ...

    def begin(self) -> AbstractAsyncContextManager[Any]:
        """The same for async code; what it yields is used with `add_in` and `move_in`."""
        ...


class Session(Protocol):
    """A connection to the store, bound to one event loop and one namespace."""

    @property
    def jobs(self) -> JobStore: ...

    @property
    def fleet(self) -> FleetStore: ...

    @property
    def locks(self) -> LockStore: ...

    @property
    def schedules(self) -> ScheduleStore: ...

    @property
    def wakeups(self) -> Wakeups | None: ...

    async def close(self) -> None: ...


class Store(Protocol):
    """A factory of sessions. Making one does no I/O."""

    @property
    def migrations(self) -> Migrations | None: ...

    @property
    def transactions(self) -> Transactions | None: ...

    async def connect(self, namespace: str) -> Session:
        """Opens a session. Raises SchemaMismatch if the schema does not fit and is not made automatically."""
        ...

    async def facts(self) -> dict[str, str]:
        """What an operator should know.

        Engine, version, durability, and warnings under keys that start with "warning".
        """
        ...

    async def close(self) -> None:
        """Ends what the store itself started; sessions are closed first."""
        ...
