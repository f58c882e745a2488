"""streaq, on uvloop as its own settings have it. Results of `silent` tasks are not kept."""

from contextlib import AbstractAsyncContextManager
from importlib import import_module
from typing import Any

from benchmarks.programs.speaking import Body, main

CONCURRENCY = 32


class StreaqQueue:
    def __init__(self, url: str) -> None:
        worker: Any = import_module("streaq").Worker(
            redis_url=url, concurrency=CONCURRENCY, anyio_kwargs={"use_uvloop": True}
        )
        body = Body()

        async def work(sent: int) -> None:
            body.run(sent)

        self._worker = worker
        self._task: Any = worker.task(silent=True, name="work")(work)

    def opened(self) -> AbstractAsyncContextManager[object]:
        found: AbstractAsyncContextManager[object] = self._worker
        return found

    async def setup(self) -> None:
        """Redis needs none."""

    async def push(self, sent: int) -> None:
        await self._task.enqueue(sent)

    async def push_many(self, count: int) -> None:
        await self._worker.enqueue_many([self._task.enqueue(0) for _ in range(count)])

    async def work(self) -> None:
        await self._worker.run_async()


if __name__ == "__main__":
    main(StreaqQueue)
