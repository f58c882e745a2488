"""Workers and queues."""

from typing import Any

from holdfast.model.records import QueueRecord, WorkerRecord
from holdfast.stores.bell import Bell
from holdfast.stores.mssql.database import Database
from holdfast.stores.mssql.queries import rendered
from holdfast.stores.mssql.rows import listed, names
from holdfast.stores.mssql.texts import stored, told
from holdfast.stores.workers import worker_of

_REGISTER = "EXEC holdfast.register_v1 ?, ?, ?, ?, ?, ?, ?, ?, ?"
_BEAT = """
    DECLARE @now bigint = holdfast.now_v1();
    UPDATE holdfast.worker SET seen = @now, live_until = @now + ? WHERE ns = ? AND id = ?;
    SELECT @@ROWCOUNT"""
_REPORT = """
    DECLARE @now bigint = holdfast.now_v1();
    UPDATE holdfast.worker SET report = ?, reported = @now, seen = @now, live_until = @now + ?
    WHERE ns = ? AND id = ?;
    SELECT @@ROWCOUNT"""
_RETIRE = "DELETE FROM holdfast.worker WHERE ns = ? AND id = ?"
_WORKERS = """
    DECLARE @now bigint = holdfast.now_v1();
    SELECT id, host, pid, queues, tasks, concurrency, version, started, seen,
        CASE WHEN live_until > @now THEN 1 ELSE 0 END, report, reported,
        CASE WHEN live_until > @now - 86400000000 THEN 1 ELSE 0 END
    FROM holdfast.worker WHERE ns = ? ORDER BY id"""
_FORGET = """
    DELETE FROM holdfast.worker WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
    WHERE ns = ? AND live_until <= holdfast.now_v1() - 86400000000"""
_PAUSE = "EXEC holdfast.pause_v1 ?, ?"
_RESUME = "UPDATE holdfast.queue SET paused = 0, since = NULL WHERE ns = ? AND name = ?"
_QUEUES = "EXEC holdfast.queues_v1 ?"


class MssqlFleet:
    """Workers and queues of one namespace."""

    def __init__(self, database: Database, ns: int, bell: Bell) -> None:
        self._database = database
        self._ns = ns
        self._bell = bell

    async def register(self, worker: WorkerRecord, lease: int) -> None:
        await self._write(
            _REGISTER,
            self._ns,
            stored(worker.id),
            worker.host,
            worker.pid,
            listed(worker.queues),
            listed(worker.tasks),
            worker.concurrency,
            worker.version,
            lease,
        )

    async def beat(self, worker_id: str, lease: int, report: bytes | None = None) -> bool:
        sql, said = (_BEAT, ()) if report is None else (_REPORT, (report,))
        known: int = await self._database.value(self._sql(sql), *said, lease, self._ns, stored(worker_id))
        return known > 0

    async def retire(self, worker_id: str) -> None:
        await self._write(_RETIRE, self._ns, stored(worker_id))

    async def workers(self) -> list[WorkerRecord]:
        rows = await self._database.rows(self._sql(_WORKERS), self._ns)
        if not all(is_kept for *_, is_kept in rows):
            await self._write(_FORGET, self._ns)
        return [_worker(*row) for *row, is_kept in rows if is_kept]

    async def pause(self, queue: str) -> None:
        await self._write(_PAUSE, self._ns, stored(queue))

    async def resume(self, queue: str) -> None:
        await self._write(_RESUME, self._ns, stored(queue))
        await self._bell.ring()

    async def queues(self) -> list[QueueRecord]:
        rows = await self._database.rows(self._sql(_QUEUES), self._ns)
        return [
            QueueRecord(name=told(name), paused=bool(paused), paused_since=since, oldest=oldest)
            for name, paused, since, oldest in rows
        ]

    async def _write(self, sql: str, *parameters: str | int) -> None:
        await self._database.execute(self._sql(sql), *parameters, writes=True)

    def _sql(self, sql: str) -> str:
        return rendered(sql, self._database.address)


def _worker(name: str, host: str, pid: int, queues: str, tasks: str, *rest: Any) -> WorkerRecord:
    return worker_of((told(name), host, pid, names(queues), names(tasks), *rest))
