"""SAQ."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from benchmarks.programs.speaking import Body, main, push_each

CONCURRENCY = 20


class SaqQueue:
    def __init__(self, url: str) -> None:
        self._saq: Any = import_module("saq")
        self._queue = self._saq.Queue.from_url(url)

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        await self._queue.connect()
        yield
        await self._queue.disconnect()

    async def setup(self) -> None:
        """Redis needs none."""

    async def push(self, sent: int) -> None:
        await self._queue.enqueue("work", sent=sent)

    async def push_many(self, count: int) -> None:
        await push_each(self, count)

    async def work(self) -> None:
        body = Body()

        async def work(_context: Any, *, sent: int) -> None:
            body.run(sent)

        await self._queue.connect()
        await self._saq.Worker(self._queue, functions=[("work", work)], concurrency=CONCURRENCY).start()


if __name__ == "__main__":
    main(SaqQueue)
