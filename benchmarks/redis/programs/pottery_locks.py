"""Redlocks of pottery, on one server: those that wait ask again after a random time."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any

from benchmarks.redis.programs.locking import run_threads

TTL = 30


def make(url: str) -> Callable[[str], AbstractContextManager[object]]:
    client: Any = import_module("redis").Redis.from_url(url)
    redlock: Any = import_module("pottery").Redlock

    def lock(name: str) -> AbstractContextManager[object]:
        made: AbstractContextManager[object] = redlock(key=name, masters={client}, auto_release_time=TTL)
        return made

    return lock


if __name__ == "__main__":
    run_threads(make)
