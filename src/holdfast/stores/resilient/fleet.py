"""Workers and queues, with every operation sent again after a transient fault."""

from __future__ import annotations

from holdfast.model.records import QueueRecord, WorkerRecord
from holdfast.store import FleetStore
from holdfast.stores.resilient.guard import Guard


class ResilientFleet:
    """The fleet of one session. A worker that says it is alive waits for its trial."""

    def __init__(self, fleet: FleetStore, guard: Guard) -> None:
        self._fleet = fleet
        self._call = guard.call

    async def register(self, worker: WorkerRecord, lease: int) -> None:
        await self._call(lambda: self._fleet.register(worker, lease))

    async def beat(self, worker_id: str, lease: int, report: bytes | None = None) -> bool:
        return await self._call(lambda: self._fleet.beat(worker_id, lease, report), is_patient=True)

    async def retire(self, worker_id: str) -> None:
        await self._call(lambda: self._fleet.retire(worker_id))

    async def workers(self) -> list[WorkerRecord]:
        return await self._call(self._fleet.workers)

    async def pause(self, queue: str) -> None:
        await self._call(lambda: self._fleet.pause(queue))

    async def resume(self, queue: str) -> None:
        await self._call(lambda: self._fleet.resume(queue))

    async def queues(self) -> list[QueueRecord]:
        return await self._call(self._fleet.queues)
