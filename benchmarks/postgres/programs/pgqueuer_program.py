"""PgQueuer: batches of a hundred, on a pool of asyncpg."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from benchmarks.programs.speaking import Body, main

BATCH = 100
ENTRYPOINT = "work"


class PgQueuerQueue:
    def __init__(self, url: str) -> None:
        self._url = url
        self._driver: Any = None
        self._queries: Any = None

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        asyncpg: Any = import_module("asyncpg")
        async with asyncpg.create_pool(self._url, min_size=4, max_size=20) as pool:
            self._driver = import_module("pgqueuer.db").AsyncpgPoolDriver(pool)
            self._queries = import_module("pgqueuer.queries").Queries(self._driver)
            yield

    async def setup(self) -> None:
        async with self.opened():
            await self._queries.install()

    async def push(self, sent: int) -> None:
        await self._queries.enqueue(ENTRYPOINT, str(sent).encode())

    async def push_many(self, count: int) -> None:
        await self._queries.enqueue([ENTRYPOINT] * count, [b"0"] * count, [0] * count)

    async def work(self) -> None:
        body = Body()
        async with self.opened():
            queuer: Any = import_module("pgqueuer").PgQueuer(self._driver)

            @queuer.entrypoint(ENTRYPOINT)  # type: ignore[untyped-decorator]  # the peer is not installed here
            async def work(job: Any) -> None:
                body.run(int(job.payload))

            await queuer.run(batch_size=BATCH)


if __name__ == "__main__":
    main(PgQueuerQueue)
