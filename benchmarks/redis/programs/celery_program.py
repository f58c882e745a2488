"""Celery: the pool of PEER_POOL, no results, late acknowledgement, no gossip, mingling or heartbeat."""

import os
import sys
from contextlib import AbstractAsyncContextManager, nullcontext
from importlib import import_module
from typing import Any

from benchmarks.programs.speaking import Body, address, main

MODULE = "benchmarks.redis.programs.celery_program"
COMMAND = ("celery", "-A", MODULE, "worker", "-l", "ERROR")
QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat")
POOLS = {"threads": ("-P", "threads", "-c", "8"), "prefork": ("-P", "prefork", "-c", "2")}

body = Body()
app: Any = import_module("celery").Celery("bench", broker=address())
app.conf.update(
    task_ignore_result=True,
    task_acks_late=True,
    worker_prefetch_multiplier=4,
    worker_redirect_stdouts=False,
    broker_connection_retry_on_startup=True,
)


def work(sent: int) -> None:
    body.run(sent)


task: Any = app.task(name="work")(work)


class CeleryQueue:
    def __init__(self, url: str) -> None:
        self._url = url

    def opened(self) -> AbstractAsyncContextManager[object]:
        return nullcontext()

    async def setup(self) -> None:
        """Redis needs none."""

    async def push(self, sent: int) -> None:
        task.delay(sent)

    async def push_many(self, count: int) -> None:
        for _ in range(count):
            task.delay(0)

    async def work(self) -> None:
        pool = POOLS[os.environ["PEER_POOL"]]
        os.execv(sys.executable, [sys.executable, "-m", *COMMAND, *QUIET, *pool])


if __name__ == "__main__":
    main(CeleryQueue)
