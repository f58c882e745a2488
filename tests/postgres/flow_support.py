"""A namespace with limits, sequences and links, and the transactions of others."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import asyncpg

from holdfast.model.flow import LimitRecord, NewFlow, Scope
from holdfast.model.records import JobRecord, Move, NewJob, Ticked, Verdict, Want
from holdfast.model.records import Tick as _Tick
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres.store import PostgresSession
from holdfast.testing.conformance.case import LONG, TASK, ended, new_job, wanted, worker_record

SCHEMA = "flows"
NAMESPACE = "shop"


class Flows:
    """One namespace, and a connection of somebody else."""

    def __init__(self, store: PostgresStore, session: PostgresSession, connection: Any) -> None:
        self.store = store
        self.session = session
        self.connection = connection
        self.jobs = session.jobs
        self.flow = session.flow
        self._seqs = count(1)

    async def add(self, *jobs: NewJob) -> list[JobRecord]:
        return [added.record for added in await self.jobs.add(jobs or [new_job()])]

    async def tick(
        self, moves: Sequence[Move] = (), want: Want | None = None, session: PostgresSession | None = None
    ) -> Ticked:
        told = _Tick(worker="ann", seq=next(self._seqs), moves=list(moves), want=want)
        return await (session or self.session).jobs.tick(told)

    async def claim(self, limit: int = 10) -> list[JobRecord]:
        return (await self.tick(want=wanted(limit=limit))).claimed

    async def finish(self, *jobs: JobRecord) -> list[JobRecord]:
        ticked = await self.tick([ended(job) for job in jobs], wanted(limit=10))
        assert set(ticked.verdicts) == {Verdict.ACCEPTED}
        return ticked.claimed

    async def begin(self, isolation: str = "READ COMMITTED") -> None:
        await self.connection.execute(f"BEGIN ISOLATION LEVEL {isolation}")
        await self.connection.execute("SELECT count(*) FROM pg_class")  # takes the snapshot

    async def commit(self) -> None:
        await self.connection.execute("COMMIT")

    async def add_in(self, *jobs: NewJob) -> None:
        await self.store.transactions.add_in(self.connection, NAMESPACE, jobs)

    async def finish_in(self, job: JobRecord) -> None:
        verdict = await self.store.transactions.move_in(self.connection, NAMESPACE, "ann", ended(job))
        assert verdict is Verdict.ACCEPTED

    async def count(self, table: str) -> int:
        found: int = await self.connection.fetchval(f"SELECT count(*) FROM {SCHEMA}.{table}")
        return found


@asynccontextmanager
async def flowing(url: str) -> AsyncGenerator[Flows]:
    store = PostgresStore.from_url(f"{url}?schema={SCHEMA}", auto_migrate=True)
    session = await store.connect(NAMESPACE)
    connection = await asyncpg.connect(url)
    try:
        await session.fleet.register(worker_record("ann"), LONG)
        yield Flows(store, session, connection)
    finally:
        await connection.close()
        await session.close()
        await store.close()


def limit(concurrency: int, scope: Scope = Scope.TASK, name: str = TASK, **fields: Any) -> LimitRecord:
    return LimitRecord(scope=scope, name=name, concurrency=concurrency, **fields)


def keyed(key: str, **fields: Any) -> NewJob:
    return new_job(flow=NewFlow(limit_key=key), **fields)


def in_turn(**fields: Any) -> NewJob:
    return new_job(flow=NewFlow(sequence="account"), **fields)


def after(*jobs: JobRecord | NewJob, **fields: Any) -> NewJob:
    return new_job(flow=NewFlow(after=tuple(job.id for job in jobs)), **fields)


def ids(jobs: Sequence[JobRecord | NewJob]) -> list[str]:
    return [job.id for job in jobs]
