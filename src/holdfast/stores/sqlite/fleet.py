"""Workers and queues."""

from typing import Any

import msgspec

from holdfast.model.records import QueueRecord, WorkerRecord
from holdfast.model.timing import SECOND
from holdfast.stores.sqlite.answers import reader
from holdfast.stores.sqlite.database import Database
from holdfast.stores.sqlite.feed import as_json
from holdfast.stores.sqlite.transaction import Transaction

_DAY = 86_400 * SECOND
_decode_names = reader(tuple[str, ...])
_decode_rows = reader(list[tuple[Any, ...]])
_decode_queues = reader(list[tuple[str, int, int | None, int | None]])


class SqliteFleet:
    """Workers and queues of one namespace."""

    def __init__(self, database: Database, ns: int) -> None:
        self._database = database
        self._ns = ns

    async def register(self, worker: WorkerRecord, lease: int) -> None:
        def work(tx: Transaction) -> None:
            tx.run("forget_workers", before=tx.now - _DAY)
            tx.run(
                "register",
                id=worker.id,
                host=worker.host,
                pid=worker.pid,
                queues=as_json(worker.queues),
                tasks=as_json(worker.tasks),
                concurrency=worker.concurrency,
                version=worker.version,
                lease=lease,
            )

        await self._database.write(self._ns, work)

    async def beat(self, worker_id: str, lease: int, report: bytes | None = None) -> bool:
        def work(tx: Transaction) -> bool:
            return tx.run("beat", id=worker_id, lease=lease, report=report).rowcount > 0

        return await self._database.write(self._ns, work, urgent=True)

    async def retire(self, worker_id: str) -> None:
        await self._database.write(self._ns, lambda tx: tx.run("retire", id=worker_id).rowcount)

    async def workers(self) -> list[WorkerRecord]:
        known = await self._database.read(self._ns, _workers)
        if any(until <= now - _DAY for _, until, now in known):
            await self._database.write(
                self._ns, lambda tx: tx.run("forget_workers", before=tx.now - _DAY).rowcount
            )
        return [worker for worker, until, now in known if until > now - _DAY]

    async def pause(self, queue: str) -> None:
        await self._database.write(self._ns, lambda tx: tx.run("pause", queue=queue).rowcount)

    async def resume(self, queue: str) -> None:
        await self._database.write(self._ns, lambda tx: tx.run("resume", queue=queue).rowcount, wakes=True)

    async def queues(self) -> list[QueueRecord]:
        return await self._database.read(self._ns, _queues)


def _workers(tx: Transaction) -> list[tuple[WorkerRecord, int, int]]:
    """All workers, each with the end of its life and the now of this reading."""
    return [
        (
            WorkerRecord(
                id=id_,
                host=host,
                pid=pid,
                queues=_names(queues),
                tasks=_names(tasks),
                concurrency=concurrency,
                version=version,
                started=started,
                seen=seen,
                live=tx.now < until,
                report=None if report is None else bytes.fromhex(report),
                reported=reported,
            ),
            until,
            tx.now,
        )
        for (
            id_,
            host,
            pid,
            queues,
            tasks,
            concurrency,
            version,
            started,
            seen,
            until,
            report,
            reported,
        ) in _decode_rows(tx.row("workers")[0])
    ]


def _names(stored: str) -> tuple[str, ...]:
    """The names that a worker stored; none if they cannot be read."""
    try:
        return _decode_names(stored)
    except msgspec.DecodeError:
        return ()


def _queues(tx: Transaction) -> list[QueueRecord]:
    return [
        QueueRecord(name=name, paused=paused != 0, paused_since=since, oldest=oldest)
        for name, paused, since, oldest in _decode_queues(tx.row("queues")[0])
    ]
