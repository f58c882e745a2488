"""taskiq on its stream broker: one worker process, a hundred jobs at a time, no results kept."""

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from benchmarks.programs.speaking import Body, address, main, push_each

MODULE = "benchmarks.redis.programs.taskiq_program"
COMMAND = (
    "taskiq",
    "worker",
    f"{MODULE}:broker",
    "--workers=1",
    "--max-async-tasks=100",
    "--log-level=ERROR",
)

body = Body()
broker: Any = import_module("taskiq_redis").RedisStreamBroker(address(), consumer_id="0")


async def work(sent: int) -> None:
    body.run(sent)


task: Any = broker.task(task_name="work")(work)


class TaskiqQueue:
    def __init__(self, url: str) -> None:
        self._url = url

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        await broker.startup()
        yield
        await broker.shutdown()

    async def setup(self) -> None:
        """Redis needs none."""

    async def push(self, sent: int) -> None:
        await task.kiq(sent)

    async def push_many(self, count: int) -> None:
        await push_each(self, count)

    async def work(self) -> None:
        os.execv(sys.executable, [sys.executable, "-m", *COMMAND])


if __name__ == "__main__":
    main(TaskiqQueue)
