"""The lock of redis-py itself, asynchronous: those that wait ask again each 0.1 s."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from importlib import import_module
from typing import Any

from benchmarks.redis.programs.locking import run_async

TTL = 30


async def make(url: str) -> Callable[[str], AbstractAsyncContextManager[object]]:
    client: Any = import_module("redis.asyncio").Redis.from_url(url)
    return partial(client.lock, timeout=TTL)


if __name__ == "__main__":
    run_async(make)
