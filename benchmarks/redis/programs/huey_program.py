"""Huey: PEER_THREADS threads."""

import os
from contextlib import AbstractAsyncContextManager, nullcontext
from importlib import import_module
from typing import Any

from benchmarks.programs.speaking import Body, main


class HueyQueue:
    def __init__(self, url: str) -> None:
        body = Body()

        def work(sent: int) -> None:
            body.run(sent)

        self._huey: Any = import_module("huey").RedisHuey("bench", url=url)
        self._task: Any = self._huey.task(name="work")(work)

    def opened(self) -> AbstractAsyncContextManager[object]:
        return nullcontext()

    async def setup(self) -> None:
        """Redis needs none."""

    async def push(self, sent: int) -> None:
        self._task(sent)

    async def push_many(self, count: int) -> None:
        for _ in range(count):
            self._task(0)

    async def work(self) -> None:
        threads = int(os.environ["PEER_THREADS"])
        self._huey.create_consumer(workers=threads, worker_type="thread", periodic=False).run()


if __name__ == "__main__":
    main(HueyQueue)
