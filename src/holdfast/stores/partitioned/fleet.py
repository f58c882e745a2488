"""Workers and queues: known in every partition."""

from msgspec.structs import replace

from holdfast.model.records import QueueRecord, WorkerRecord
from holdfast.stores.partitioned.crowd import Crowd


class PartitionedFleet:
    """A queue may have jobs in every partition, so it is paused in all; a worker serves them all."""

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd

    async def register(self, worker: WorkerRecord, lease: int) -> None:
        await self._crowd.write("registered", lambda branch: branch.fleet.register(worker, lease))

    async def beat(self, worker_id: str, lease: int) -> bool:
        return all(await self._crowd.write("kept", lambda branch: branch.fleet.beat(worker_id, lease)))

    async def retire(self, worker_id: str) -> None:
        await self._crowd.write("retired", lambda branch: branch.fleet.retire(worker_id))

    async def workers(self) -> list[WorkerRecord]:
        """Each once, live if it is in any partition."""
        found: dict[str, WorkerRecord] = {}
        for _, records in await self._crowd.read(lambda branch: branch.fleet.workers()):
            for record in records:
                known = found.get(record.id, record)
                found[record.id] = replace(
                    record,
                    started=min(record.started, known.started),
                    seen=max(record.seen, known.seen),
                    live=record.live or known.live,
                )
        return [found[worker] for worker in sorted(found)]

    async def pause(self, queue: str) -> None:
        await self._crowd.write(f"queue {queue} is paused", lambda branch: branch.fleet.pause(queue))

    async def resume(self, queue: str) -> None:
        await self._crowd.write(f"queue {queue} is open", lambda branch: branch.fleet.resume(queue))

    async def queues(self) -> list[QueueRecord]:
        """A queue that is paused in one partition is shown as paused."""
        found: dict[str, bool] = {}
        for _, records in await self._crowd.read(lambda branch: branch.fleet.queues()):
            for record in records:
                found[record.name] = record.paused or found.get(record.name, False)
        return [QueueRecord(name=name, paused=found[name]) for name in sorted(found)]
