"""Jobs: what a store does with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.model.records import (
    Added,
    AttemptRecord,
    Edit,
    Extension,
    Held,
    JobRecord,
    NewJob,
    Query,
    QueueCount,
    Tick,
    Ticked,
)


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

        What a job's `flow` says is written in `FlowStore`.
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
        as by `add` with the move, and events appended, or not at all; a child whose id or key is taken is
        left out. The version rises by one. `cancel_asked` stays until the job is replayed.

        A refused move changes nothing of the job. If history has its (job, token) with the same outcome,
        closed by the same worker, it is a repeat, and the answer is ACCEPTED; so is a start of a job that
        this worker holds under this token and that is running. If history has it as `lost`, and the refused
        move had an outcome, was not `if_expired` and came from the attempt's own worker, that attempt is
        from then on told as `superseded`. One refused move does not touch the others.

        Claim, if wanted and the worker is registered and live. Due jobs (due <= now) become ready; then up
        to `limit` ready jobs of the wanted tasks, queue by queue in the given order, paused ones left out,
        each by priority (lowest number first), due time or rank, id; those that `FlowStore` holds back are
        passed over. A claimed job has state claimed, run + 1,
        version + 1, token = max(token + 1, the store's clock in µs), the worker, a lease of its own length
        or the wanted one, and no start, reason or progress left from before. No job is ever given to two
        claimers.

        With `repeat`, if anything is wanted, jobs that this (worker, seq) claimed and still holds are given
        back as they stand, registered or not, and nothing new is claimed if there are any.

        A want that `stands` and was not fulfilled whole may be kept by the store, which then says so: for so
        long, or until the worker's next tick that names it as `stood` or has one that `stands` too. Meanwhile
        a job that is added and due may be claimed for it, as by a tick of its own: at most once, for as many
        as are still wanted, and not if another waits that would come first. Then the want stands no longer,
        and its session is told (`Handovers`), which may fail. Jobs that were claimed for the want that
        `stood`, and are still held, are given by the tick in any case, whatever else it wants; so are those
        of this seq, if it is a `repeat`. If there are any, nothing new is claimed. Seqs of a worker grow: a
        want of an earlier one never takes the place of a later.
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

    async def count(self, most: int | None = None) -> list[QueueCount]:
        """Counts by queue and state, where there are any, without reading finished jobs one by one.

        With `most`, no more than about so many need be counted one by one: what is beyond that may be
        estimated, and is then told as not `exact`. Queues with few jobs are counted in any case.
        """
        ...

    async def history(self, job_id: str) -> list[AttemptRecord]:
        """Ended attempts of a job, oldest first."""
        ...

    async def prune(self, older_than: int, limit: int) -> int:
        """Removes jobs, with history and keys, that finished more than `older_than` ago; how many.

        Takes the oldest first, up to `limit`. Leaves dlq alone.
        """
        ...
