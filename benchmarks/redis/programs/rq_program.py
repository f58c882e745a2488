"""RQ: the worker that does not fork for each job."""

from contextlib import AbstractAsyncContextManager, nullcontext
from importlib import import_module
from typing import Any

from benchmarks.programs.speaking import Body, main

WORK = "benchmarks.redis.programs.rq_program.work"

body = Body()


def work(sent: int) -> None:
    body.run(sent)


class RqQueue:
    def __init__(self, url: str) -> None:
        self._rq: Any = import_module("rq")
        self._connection: Any = import_module("redis").Redis.from_url(url)
        self._queue = self._rq.Queue(connection=self._connection)

    def opened(self) -> AbstractAsyncContextManager[object]:
        return nullcontext()

    async def setup(self) -> None:
        """Redis needs none."""

    async def push(self, sent: int) -> None:
        self._queue.enqueue(WORK, sent, result_ttl=0)

    async def push_many(self, count: int) -> None:
        prepared = self._rq.Queue.prepare_data
        self._queue.enqueue_many([prepared(WORK, args=(0,), result_ttl=0) for _ in range(count)])

    async def work(self) -> None:
        self._rq.SimpleWorker([self._queue], connection=self._connection).work(logging_level="ERROR")


if __name__ == "__main__":
    main(RqQueue)
