"""Jobs of one session, their arguments and results encrypted."""

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
)
from holdfast.store import JobStore
from holdfast.stores.sealed.seal import Seal


class SealedJobs:
    """Decrypts whatever comes with a job; what has none is passed through."""

    def __init__(self, jobs: JobStore, seal: Seal) -> None:
        self._jobs = jobs
        self._seal = seal

    async def add(self, jobs: Sequence[NewJob]) -> list[Added]:
        return self._seal.answers(jobs, await self._jobs.add(self._seal.jobs(jobs)))

    async def tick(self, tick: Tick) -> Ticked:
        moves = [self._seal.move(move) for move in tick.moves]
        told = await self._jobs.tick(replace(tick, moves=moves))
        return replace(told, claimed=self._seal.records(told.claimed)) if told.claimed else told

    async def extend(self, worker: str, extensions: Sequence[Extension]) -> list[Held]:
        return await self._jobs.extend(worker, extensions)

    async def expired(self, limit: int) -> list[JobRecord]:
        return self._seal.records(await self._jobs.expired(limit))

    async def edit(self, job_id: str, version: int, edit: Edit) -> JobRecord | None:
        record = await self._jobs.edit(job_id, version, edit)
        return None if record is None else self._seal.record(record)

    async def delete(self, job_id: str) -> bool:
        return await self._jobs.delete(job_id)

    async def get(self, job_id: str) -> JobRecord | None:
        record = await self._jobs.get(job_id)
        return None if record is None else self._seal.record(record)

    async def states(self, job_ids: Sequence[str]) -> list[JobRecord | None]:
        told = await self._jobs.states(job_ids)
        return [None if record is None else self._seal.record(record) for record in told]

    async def find(self, query: Query) -> list[JobRecord]:
        return self._seal.records(await self._jobs.find(query))

    async def count(self, most: int | None = None) -> list[QueueCount]:
        return await self._jobs.count(most)

    async def history(self, job_id: str) -> list[AttemptRecord]:
        return await self._jobs.history(job_id)

    async def prune(self, older_than: int, limit: int) -> int:
        return await self._jobs.prune(older_than, limit)
