"""arq: a hundred jobs at a time, and a poll each 10 ms."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from benchmarks.programs.speaking import Body, main, push_each

CONCURRENCY = 100
POLL = 0.01


class ArqQueue:
    def __init__(self, url: str) -> None:
        self._arq: Any = import_module("arq")
        self._settings = import_module("arq.connections").RedisSettings.from_dsn(url)
        self._pool: Any = None

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        self._pool = await self._arq.create_pool(self._settings)
        yield
        await self._pool.aclose()

    async def setup(self) -> None:
        """Redis needs none."""

    async def push(self, sent: int) -> None:
        await self._pool.enqueue_job("work", sent)

    async def push_many(self, count: int) -> None:
        await push_each(self, count)

    async def work(self) -> None:
        body = Body()

        async def work(_context: Any, sent: int) -> None:
            body.run(sent)

        module: Any = import_module("arq.worker")
        worker = module.Worker(
            [module.func(work, name="work")],
            redis_settings=self._settings,
            max_jobs=CONCURRENCY,
            poll_delay=POLL,
            keep_result=0,
        )
        await worker.async_run()


if __name__ == "__main__":
    main(ArqQueue)
