"""Holdfast with jobs in several queues, on one store or on several partitions."""

from contextlib import AbstractAsyncContextManager
from itertools import cycle

from benchmarks.programs.holdfast_program import CONCURRENCY, run_worker
from benchmarks.programs.speaking import Body, main
from holdfast import Holdfast

QUEUES = tuple(f"q{number}" for number in range(12))


class PartitionQueue:
    def __init__(self, url: str) -> None:
        body = Body()
        self._app = Holdfast(url, auto_migrate=True, concurrency=CONCURRENCY, log_level="error")

        @self._app.task
        async def work(sent: int) -> None:
            body.run(sent)

        self._tasks = [work.using(queue=queue) for queue in QUEUES]
        self._turns = cycle(self._tasks)

    def opened(self) -> AbstractAsyncContextManager[object]:
        return self._app

    async def setup(self) -> None:
        async with self._app:
            pass

    async def push(self, sent: int) -> None:
        await next(self._turns).enqueue(sent)

    async def push_many(self, count: int) -> None:
        calls = [task.call(0) for task in self._tasks]
        await self._app.enqueue_many([calls[number % len(calls)] for number in range(count)])

    async def work(self) -> None:
        await self._app.worker(QUEUES).run()


if __name__ == "__main__":
    main(PartitionQueue, run_worker)
