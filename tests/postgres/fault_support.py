"""A migrated store behind a proxy that can be told to fail, and calls to make on it."""

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from holdfast.model.records import JobRecord, Move, NewJob, Query, Tick
from holdfast.store import Session, Store
from holdfast.stores import open_store
from holdfast.stores.postgres import PostgresStore
from holdfast.testing.conformance.case import ended, new_job, wanted, worker_record
from tests.postgres.proxy import Proxy
from tests.servers.sql import execute

SCHEMA = "faults"
ANN = "ann"
_made: set[str] = set()


class Rig:
    """One namespace: seen plainly, through the proxy by the bare store, and through it by the resilient one.

    `plain` is never disturbed: it tells what the server has.
    """

    def __init__(self, url: str, proxy: Proxy, options: str) -> None:
        self.server = url
        self.proxy = proxy
        self.options = f"?schema={SCHEMA}{options}"
        self.namespace = secrets.token_hex(6)
        self._stores: list[Store] = []
        self._sessions: list[Session] = []

    async def connect(self, store: Store) -> Session:
        self._stores.append(store)
        self._sessions.append(await store.connect(self.namespace))
        return self._sessions[-1]

    async def begin(self) -> None:
        self.plain = await self.connect(PostgresStore.from_url(self.server + self.options))
        self.bare = await self.connect(PostgresStore.from_url(self.proxy.url + self.options))
        self.resilient = await self.connect(open_store(self.proxy.url + self.options))
        await self.plain.fleet.register(worker_record(ANN), 60_000_000)

    async def close(self) -> None:
        self.proxy.speaking.set()
        self.proxy.is_down = False
        for session in self._sessions:
            await session.close()
        for store in self._stores:
            await store.close()

    def through_proxy(self) -> PostgresStore:
        """A bare store of its own."""
        return PostgresStore.from_url(self.proxy.url + self.options)

    def sql(self, text: str, *args: object) -> list[Any]:
        return execute(self.server, text, *args)

    async def add(self, *jobs: NewJob) -> list[JobRecord]:
        return [added.record for added in await self.plain.jobs.add(jobs or [new_job()])]

    async def claim(self, count: int = 1, seq: int = 1) -> list[JobRecord]:
        await self.add(*[new_job() for _ in range(count)])
        return (await self.plain.jobs.tick(claiming(seq, limit=count))).claimed

    async def only(self) -> JobRecord:
        """The one job that is stored, live or finished."""
        [found] = await self.plain.jobs.find(Query())
        return found


def claiming(seq: int, limit: int = 1, moves: list[Move] | None = None, repeat: bool = False) -> Tick:
    want = wanted(limit=limit)
    return Tick(worker=ANN, seq=seq, moves=moves or [], want=want, repeat=repeat)


def moving(seq: int, *jobs: JobRecord, **fields: Any) -> Tick:
    return Tick(worker=ANN, seq=seq, moves=[ended(job, **fields) for job in jobs])


@asynccontextmanager
async def rig(url: str, options: str = "") -> AsyncGenerator[Rig]:
    if url not in _made:
        await PostgresStore.from_url(f"{url}?schema={SCHEMA}").migrations.apply()
        _made.add(url)
    async with Proxy(url) as proxy:
        made = Rig(url, proxy, options)
        await made.begin()
        try:
            yield made
        finally:
            await made.close()
