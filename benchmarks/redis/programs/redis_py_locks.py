"""The lock of redis-py itself, asynchronous: those that wait ask each PEER_SLEEP seconds."""

import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from importlib import import_module
from typing import Any

from benchmarks.redis.programs.locking import run_async

TTL = 30


async def make(url: str) -> Callable[[str], AbstractAsyncContextManager[object]]:
    client: Any = import_module("redis.asyncio").Redis.from_url(url)
    return partial(client.lock, timeout=TTL, sleep=float(os.environ["PEER_SLEEP"]))


if __name__ == "__main__":
    run_async(make)
