"""The seam: what a store must do, and every promise that it keeps.

A store keeps data and gives atomic operations. It never decides: retries, delays and states are computed by
the engine and arrive as data. It never reads a worker's clock: durations come in, and the store adds its own
clock in the statement that acts.

Promises that hold for every operation below:

- Atomic: an operation happens whole or not at all; a batch is one transaction unless said otherwise.
- Three outcomes: it returns (done), raises StoreUnavailable (not done), or raises OutcomeUnknown (perhaps
  done).
- Repeatable: every mutating operation may be sent again unchanged and then gives the first answer.
- Scoped: a session belongs to one namespace and neither sees nor changes anything of another.
- Bound values: names and payloads are values, never identifiers, and come back exactly as they went in.
- Safe when cancelled: if a caller is cancelled while waiting, the operation is done whole or not at all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol

from holdfast.model.records import (
    Added,
    AttemptRecord,
    Edit,
    Extension,
    Held,
    JobRecord,
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


class JobStore(Protocol):
    """Live jobs (scheduled, retry, claimed, running) and finished ones (success, failed, dlq, cancelled)."""

    async def add(self, jobs: Sequence[NewJob]) -> list[Added]:
        """Stores jobs; one answer each, in order.

        A job becomes `scheduled`, version 1, token 0, created at the store's now. If its id is already
        stored, live or finished, the stored job is the answer, with conflict "id" if task, queue or payload
        differ. If its key is held, the holder is the answer, with conflict "key" if task or payload differ. A
        key is held while its job is live and until its TTL, counted from that job's creation, has passed,
        whichever is later; a deleted or pruned job holds nothing. Concurrent callers with one key get one
        job. Jobs of one batch see each other.
        """
        ...

    async def tick(self, tick: Tick) -> Ticked:
        """Applies moves, then claims: one round trip, one commit.

        Moves. A move is accepted if the job is leased under the move's token, the job's state lies on the
        path before its end, and either the tick's worker is the holder or, for a move with `if_expired`, the
        lease has expired at the store's now. A start (no outcome) needs an unexpired lease as well; it sets
        `started` and keeps the lease. Any other accepted move ends the attempt: it is written to history with
        worker, token, run, times, outcome, reason and error; the lease is gone; failures, lost and suspect
        take the move's values; reason and error are the job's last. A job that waits again gets due = now +
        delay if delay is given. Children are added with the move, or not at all. The version rises by one. A
        refused move changes nothing of the job; if history has its (job, token) with the same outcome, closed
        by the same worker, the answer is ACCEPTED (it is a repeat), and a start that already stands is
        ACCEPTED. If history has it as `lost`, and the refused move had an outcome and came from the attempt's
        own worker, that attempt is from then on told as `superseded`. One refused move does not touch the
        others.

        Claim, if wanted and the worker is registered and live. Due jobs become ready; then up to `limit`
        ready jobs of the wanted tasks, queue by queue in the given order, paused ones left out, each by
        priority (lowest number first), due time, id. A claimed job has state claimed, run + 1, version + 1,
        token = max(token + 1, the store's clock in µs), the worker, a lease of its own length or the wanted
        one, and no start, reason or progress left from before. No job is ever given to two claimers.

        With `repeat`, jobs that this (worker, seq) claimed and still holds are given back as they stand, and
        nothing new is claimed if there are any.
        """
        ...

    async def extend(self, worker: str, extensions: Sequence[Extension]) -> list[Held]:
        """Prolongs leases that are current (token and worker) and unexpired, to now + lease.

        Never shortens one.         Shows a claimed job as running once `elapsed` is given, and stores progress. Does not raise the
        version. An expired lease is LOST even if nobody has taken the job yet.
        """
        ...

    async def expired(self, limit: int) -> list[JobRecord]:
        """Leased jobs whose lease has expired, oldest expiry first. Changes nothing."""
        ...

    async def edit(self, job_id: str, version: int, edit: Edit) -> JobRecord | None:
        """Applies an edit if the version is current and the state fits; the job as it then stands, else None.

        A finished job that is replayed becomes live again with its token, run and history. Raises the version
        by one, so a repeat gives None: after an unknown outcome, read the job. If `key` is given and held by other work, nothing is changed and KeyConflict is raised.
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
        """Counts by queue and state, without reading finished jobs one by one."""
        ...

    async def history(self, job_id: str) -> list[AttemptRecord]:
        """Ended attempts of a job, oldest first."""
        ...

    async def prune(self, older_than: int, limit: int) -> int:
        """Removes up to `limit` jobs, with history and keys, that finished longer ago than `older_than`.

        Gives their number. Leaves the dead-letter queue alone.
        """
        ...


class FleetStore(Protocol):
    """Workers and queues."""

    async def register(self, worker: WorkerRecord, lease: int) -> None:
        """Makes the worker known and live for `lease`. Doing so again replaces what it said before."""
        ...

    async def beat(self, worker_id: str, lease: int) -> bool:
        """Keeps the worker live for `lease` from now.

        False if it is not known; an expired one is live again.
        """
        ...

    async def retire(self, worker_id: str) -> None:
        """Forgets the worker. Its leases stay until they expire or are released."""
        ...

    async def workers(self) -> list[WorkerRecord]:
        """All known workers, the dead ones marked as not live; those dead for a day are forgotten."""
        ...

    async def pause(self, queue: str) -> None: ...

    async def resume(self, queue: str) -> None: ...

    async def queues(self) -> list[QueueRecord]:
        """Queues that have a live job or were ever paused, by name."""
        ...


class Wakeups(Protocol):
    """Hints that work may exist. They may be late, lost, or without reason; nothing rests on them."""

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Calls `wake`, from any thread, soon after something was added, became due or was asked to stop.

        Gives back a function that ends the listening.
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
