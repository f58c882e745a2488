"""What holds jobs back beside their due time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.model.flow import Awaited, LimitRecord, Scope, Usage
from holdfast.model.lifecycle import State


class FlowStore(Protocol):
    """Limits, sequences, and jobs that wait for jobs.

    Limits. The gates of a job are its queue, its task and its `limit_key`. The limit of a gate is the one
    that was put for it; for a key that has none, the one for each key of the job's task. A claim takes jobs
    in its order, and passes over one if a gate of it is paused, has as many leased jobs as its limit allows,
    or has used up its rate. What counts is what is leased at the store's now, whoever claimed it and however;
    so a limit holds for every claim after the call that put it. By a rate, a claim at `now` is let through if
    `max(last, now) + interval <= now + burst * interval`, and makes that sum the `last`, which belongs to the
    gate and outlives a change of its limit.

    Sequences. Jobs of one sequence have the order in which they were added, those of one call the order of
    the call. A claim passes over a job if one before it is not finished, or another of them is leased. While
    a sequence is halted, only the job that halted it is claimed: one with `halts` that became dlq or failed.
    The halt ends when that job is finished otherwise or deleted, or by `proceed`.

    Other jobs. A job waits while it is held, or any of the jobs before it is pending. Such a one is pending
    while it is live, and while it is dlq unless the waiting job is `after_any`; one that is not stored, or
    not stored any more, or comes later in the same call, is not pending, and counts as unmet if it was not
    finished with success before. One that is not pending any more stays so, also if it is replayed. A waiting
    job keeps its due time. `before` adds the new job to those that a stored job waits for, if that is still
    waiting so; as it is when the new job is a child of the last one that it waits for.

    Fair keys. The rank of a new job that has one is `max(floor, last) + STRIDE / weight`, rounded down, where
    `last` is the rank of the last job of that key in that queue, `floor` the lowest rank or due time of the
    ready jobs of that queue and priority before the call, or, if there are none, the highest rank ever given
    in that queue or the store's now, whichever is higher. `last` may be forgotten once it is not above
    `floor`. The weight is that of the limit on that key.

    What is parked costs the claims of others nothing, however much it is. It is looked at again by the first
    claim after that which makes room: the end of a lease, the end or removal of a job, a change of a limit,
    or time. A tick that would have to look at too many jobs may stop earlier, and then says a `next_due` of
    0. A job that is edited, or whose attempt ended, is parked anew when a claim meets it.
    """

    async def put(self, limits: Sequence[LimitRecord]) -> None:
        """Stores limits, each in the place of the one with its scope and name.

        One that is declared replaces none that is not. `paused_since` is the store's now for one that is
        paused and was not before, that of the one before if it was paused too, else None.
        """
        ...

    async def swap(self, known: LimitRecord | None, limit: LimitRecord | None) -> bool:
        """Puts a limit in the place of `known`, as `limits` gave it; False if that is not what stands there.

        None says that there is none, or shall be none. Not both. True also if the limit stands there already:
        then it may be this call that is repeated. `paused_since` is neither compared nor taken
        over: it is what stands there, if that is paused and stays so.
        """
        ...

    async def remove(self, scope: Scope, name: str) -> None:
        """Removes a limit, if there is one."""
        ...

    async def limits(self) -> list[LimitRecord]:
        """All limits, by scope and name."""
        ...

    async def usage(self, gates: Sequence[str]) -> list[Usage]:
        """How many jobs of these gates are leased, and how many parked there."""
        ...

    async def awaited(self, job_id: str) -> Awaited | None:
        """What the job waits for, or has waited for; None if it is not stored."""
        ...

    async def before(self, job_id: str, after: str | None, limit: int) -> list[tuple[str, State | None]]:
        """The jobs that a job waits for, or has waited for, and how each ended, by id from `after` on.

        None for one that is pending; `cancelled` also for one that was not stored when it was looked for.
        """
        ...

    async def release(self, job_id: str) -> bool:
        """Lets a job go that is held; False if it is not stored. Releasing again changes nothing."""
        ...

    async def held(self, after: str | None, limit: int) -> list[str]:
        """The waiting jobs that are held, by id from `after` on."""
        ...

    async def proceed(self, sequence: str) -> None:
        """Ends the halt of a sequence, if it is halted."""
        ...

    async def halted(self) -> dict[str, str]:
        """The sequences that are halted, and the job that halted each."""
        ...

    async def overdue(self, limit: int) -> list[str]:
        """Waiting jobs that were never claimed and have expired, the longest expired first, then by id."""
        ...
