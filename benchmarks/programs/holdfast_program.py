"""Holdfast, on whatever store the URL names."""

from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any

from benchmarks.programs.speaking import Body, main
from holdfast import Holdfast
from holdfast.cli.tuning import tuned_runner

CONCURRENCY = 100


class HoldfastQueue:
    def __init__(self, url: str) -> None:
        body = Body()
        self._app = Holdfast(url, auto_migrate=True, concurrency=CONCURRENCY, log_level="error")

        @self._app.task
        async def work(sent: int) -> None:
            body.run(sent)

        self._task = work

    def opened(self) -> AbstractAsyncContextManager[object]:
        return self._app

    async def setup(self) -> None:
        async with self._app:
            pass

    async def push(self, sent: int) -> None:
        await self._task.enqueue(sent)

    async def push_many(self, count: int) -> None:
        # Arguments are encoded once, as COPY's are.
        await self._app.enqueue_many([self._task.call(0)] * count)

    async def work(self) -> None:
        await self._app.worker().run()


def run_worker(work: Coroutine[Any, Any, None]) -> None:
    """As `holdfast worker` does."""
    with tuned_runner() as runner:
        runner.run(work)


if __name__ == "__main__":
    main(HoldfastQueue, run_worker)
