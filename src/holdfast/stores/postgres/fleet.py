"""Workers and queues."""

from holdfast.model.records import QueueRecord, WorkerRecord
from holdfast.stores.bell import Bell
from holdfast.stores.postgres.database import Database
from holdfast.stores.postgres.queries import Queries
from holdfast.stores.workers import worker_of


class PostgresFleet:
    """Workers and queues of one namespace."""

    def __init__(self, database: Database, queries: Queries, ns: int, bell: Bell) -> None:
        self._database = database
        self._queries = queries
        self._ns = ns
        self._bell = bell

    async def register(self, worker: WorkerRecord, lease: int) -> None:
        await self._database.value(
            self._queries.register,
            self._ns,
            worker.id,
            worker.host,
            worker.pid,
            list(worker.queues),
            list(worker.tasks),
            worker.concurrency,
            worker.version,
            lease,
        )

    async def beat(self, worker_id: str, lease: int, report: bytes | None = None) -> bool:
        return await self._database.value(self._queries.beat, self._ns, worker_id, lease, report) is True

    async def retire(self, worker_id: str) -> None:
        await self._database.value(self._queries.retire, self._ns, worker_id)

    async def workers(self) -> list[WorkerRecord]:
        rows = await self._database.rows(self._queries.workers, self._ns)
        if not all(is_kept for *_, is_kept in rows):
            await self._database.value(self._queries.forget_workers, self._ns)
        return [worker_of(row) for *row, is_kept in rows if is_kept]

    async def pause(self, queue: str) -> None:
        await self._database.value(self._queries.pause, self._ns, queue)

    async def resume(self, queue: str) -> None:
        await self._database.value(self._queries.resume, self._ns, queue)
        await self._bell.ring()

    async def queues(self) -> list[QueueRecord]:
        rows = await self._database.rows(self._queries.queues, self._ns)
        return [
            QueueRecord(name=name, paused=paused, paused_since=since, oldest=oldest)
            for name, paused, since, oldest in rows
        ]
