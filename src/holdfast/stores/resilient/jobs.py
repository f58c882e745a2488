"""Jobs, with every operation sent again after a transient fault."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

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
    as_repeated,
)
from holdfast.store import JobStore
from holdfast.stores.resilient.guard import Guard


class ResilientJobs:
    """The jobs of one session. Whatever keeps a lease or records a completion waits for its trial.

    A call about no job is answered here: it would reach no store, and so say nothing of one that is away.
    """

    def __init__(self, jobs: JobStore, guard: Guard) -> None:
        self._jobs = jobs
        self._call = guard.call

    async def add(self, jobs: Sequence[NewJob]) -> list[Added]:
        if not jobs:
            return []
        return await self._call(
            lambda: self._jobs.add(jobs), resend=lambda: self._jobs.add(as_repeated(jobs))
        )

    async def tick(self, tick: Tick) -> Ticked:
        return await self._call(
            lambda: self._jobs.tick(tick),
            resend=lambda: self._jobs.tick(replace(tick, repeat=True)),
            is_patient=True,
        )

    async def extend(self, worker: str, extensions: Sequence[Extension]) -> list[Held]:
        if not extensions:
            return []
        return await self._call(lambda: self._jobs.extend(worker, extensions), is_patient=True)

    async def expired(self, limit: int) -> list[JobRecord]:
        return await self._call(lambda: self._jobs.expired(limit))

    async def edit(self, job_id: str, version: int, edit: Edit) -> JobRecord | None:
        return await self._call(lambda: self._jobs.edit(job_id, version, edit), is_repeatable=False)

    async def delete(self, job_id: str) -> bool:
        return await self._call(lambda: self._jobs.delete(job_id))

    async def get(self, job_id: str) -> JobRecord | None:
        return await self._call(lambda: self._jobs.get(job_id))

    async def states(self, job_ids: Sequence[str]) -> list[JobRecord | None]:
        return await self._call(lambda: self._jobs.states(job_ids)) if job_ids else []

    async def find(self, query: Query) -> list[JobRecord]:
        return await self._call(lambda: self._jobs.find(query))

    async def count(self, most: int | None = None) -> list[QueueCount]:
        return await self._call(lambda: self._jobs.count(most))

    async def history(self, job_id: str) -> list[AttemptRecord]:
        return await self._call(lambda: self._jobs.history(job_id))

    async def prune(self, older_than: int, limit: int) -> int:
        return await self._call(lambda: self._jobs.prune(older_than, limit))
