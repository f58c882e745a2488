"""dramatiq: one worker process with eight threads."""

import os
import sys
from contextlib import AbstractAsyncContextManager, nullcontext
from importlib import import_module
from typing import Any

from benchmarks.programs.speaking import Body, address, main

MODULE = "benchmarks.redis.programs.dramatiq_program"
COMMAND = ("dramatiq", "--processes=1", "--threads=8", MODULE)

body = Body()
dramatiq: Any = import_module("dramatiq")
dramatiq.set_broker(import_module("dramatiq.brokers.redis").RedisBroker(url=address()))


def work(sent: int) -> None:
    body.run(sent)


actor: Any = dramatiq.actor(work, actor_name="work")


class DramatiqQueue:
    def __init__(self, url: str) -> None:
        self._url = url

    def opened(self) -> AbstractAsyncContextManager[object]:
        return nullcontext()

    async def setup(self) -> None:
        """Redis needs none."""

    async def push(self, sent: int) -> None:
        actor.send(sent)

    async def push_many(self, count: int) -> None:
        for _ in range(count):
            actor.send(0)

    async def work(self) -> None:
        os.execv(sys.executable, [sys.executable, "-m", *COMMAND])


if __name__ == "__main__":
    main(DramatiqQueue)
