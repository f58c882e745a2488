"""A client on a store whose time stands still, with stand-ins for what a worker does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from holdfast.engine.client import Client
from holdfast.engine.ids import new_id
from holdfast.engine.lock_renewer import Renewer
from holdfast.engine.locks import Locks
from holdfast.engine.notices import Notices
from holdfast.model import lifecycle
from holdfast.model.lifecycle import Ending, Path
from holdfast.model.records import (
    Added,
    JobRecord,
    Move,
    NewJob,
    Tick,
    Ticked,
    Verdict,
    Want,
    WorkerRecord,
)
from holdfast.model.settings import Settings
from holdfast.model.task import Registry, define
from holdfast.store import Session, Store
from holdfast.stores.memory import MemoryStore
from holdfast.testing import ManualClock

MINUTE = 60_000_000


async def double(number: int) -> int:
    return 2 * number


def registry() -> Registry:
    tasks = Registry()
    tasks.add(define(double))
    return tasks


def new_job(**given: Any) -> NewJob:
    values: dict[str, Any] = {
        "id": new_id(),
        "task": "double",
        "queue": "default",
        "payload": b'{"number":1}',
    }
    return NewJob(**(values | given))


@dataclass
class Bench:
    """A client and the store under it; `run` does to the next due job what a worker would."""

    client: Client
    session: Session
    clock: ManualClock
    seq: int = 0
    workers: set[str] = field(default_factory=set)

    async def register(self, worker: str = "w", *, queues: Sequence[str] = ("default",)) -> None:
        record = WorkerRecord(
            id=worker, host="h", pid=1, queues=tuple(queues), tasks=("double",), concurrency=1
        )
        await self.session.fleet.register(record, MINUTE)
        self.workers.add(worker)

    async def claim(self, worker: str = "w", queue: str = "default") -> JobRecord:
        if worker not in self.workers:
            await self.register(worker)
        want = Want(queues=(queue,), tasks=frozenset({"double"}), limit=1, lease=MINUTE)
        (record,) = (await self._tick(worker, want=want)).claimed
        return record

    async def start(self, record: JobRecord) -> None:
        move = Move(job=record.id, token=record.token, path=lifecycle.STARTED, elapsed=0)
        assert record.worker is not None
        assert (await self._tick(record.worker, move)).verdicts == [Verdict.ACCEPTED]

    async def end(self, record: JobRecord, path: Path, outcome: Ending, **facts: Any) -> None:
        move = Move(job=record.id, token=record.token, path=path, outcome=outcome, elapsed=5, **facts)
        assert record.worker is not None
        assert (await self._tick(record.worker, move)).verdicts == [Verdict.ACCEPTED]

    async def succeed(self, result: bytes | None = b"2") -> JobRecord:
        record = await self.claim()
        await self.end(record, lifecycle.SUCCEEDED, Ending.SUCCESS, result=result)
        return record

    async def bury(self, reason: str = "boom") -> JobRecord:
        record = await self.claim()
        await self.end(
            record,
            lifecycle.DEAD_LETTERED,
            Ending.FAILED,
            reason=reason,
            error="Traceback",
            failures=4,
            lost=1,
        )
        return record

    async def _tick(self, worker: str, *moves: Move, want: Want | None = None) -> Ticked:
        self.seq += 1
        return await self.session.jobs.tick(Tick(worker=worker, seq=self.seq, moves=list(moves), want=want))


@asynccontextmanager
async def bench(
    open_store: Callable[[ManualClock], Store] = MemoryStore, **settings: Any
) -> AsyncGenerator[Bench]:
    clock = ManualClock()
    store = open_store(clock)
    connect = partial(store.connect, new_id())
    session = await connect()
    notices = Notices()
    locks = Locks(session.locks, Renewer(connect, notices), notices)
    client = Client(session, Settings(store="memory://", **settings), registry(), locks=locks)
    try:
        yield Bench(client, session, clock)
    finally:
        await client.close()
        await store.close()


Benches: TypeAlias = Callable[[], AbstractAsyncContextManager[Bench]]


class SlowAdds:
    """A job store whose `add` waits until it is let go, and may be told to fail."""

    def __init__(self) -> None:
        self.batches: list[list[NewJob]] = []
        self.errors: list[BaseException | None] = []
        self.arrived = asyncio.Event()
        self._going = asyncio.Semaphore(0)

    def let_go(self, times: int = 1) -> None:
        for _ in range(times):
            self._going.release()

    async def add(self, jobs: Sequence[NewJob]) -> list[Added]:
        self.batches.append(list(jobs))
        self.arrived.set()
        await self._going.acquire()
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error
        return [Added(record=record_of(job), created=True) for job in jobs]

    async def arrival(self) -> None:
        await self.arrived.wait()
        self.arrived.clear()

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError(name)


def record_of(job: NewJob) -> JobRecord:
    return JobRecord(
        id=job.id,
        task=job.task,
        queue=job.queue,
        payload=job.payload,
        state=lifecycle.State.SCHEDULED,
        priority=0,
        due=0,
        created=0,
    )
