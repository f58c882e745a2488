"""Locks of python-redis-lock: those that wait block on a list of the server."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from importlib import import_module
from typing import Any

from benchmarks.redis.programs.locking import run_threads

TTL = 30


def make(url: str) -> Callable[[str], AbstractContextManager[object]]:
    client: Any = import_module("redis").Redis.from_url(url)
    return partial(import_module("redis_lock").Lock, client, expire=TTL)


if __name__ == "__main__":
    run_threads(make)
