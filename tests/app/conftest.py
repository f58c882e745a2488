"""Benches on every store."""

from functools import partial
from pathlib import Path

import pytest

from holdfast.store import Store
from holdfast.stores.memory import MemoryStore
from holdfast.stores.redis import RedisStore
from holdfast.stores.redis.address import parse
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing import ManualClock
from tests.app import support
from tests.postgres.support import place


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> support.Benches:
    """Makes a bench on each of the stores in turn."""

    def open_store(clock: ManualClock) -> Store:
        match request.param:
            case "sqlite":
                return SqliteStore.from_url(f"sqlite:///{tmp_path}/jobs.db", clock=clock)
            case "postgres":
                return place(request.getfixturevalue("postgres_url"), "bench").clocked(clock)
            case "redis":
                return RedisStore(parse(request.getfixturevalue("redis_url")), clock=clock)
            case _:
                return MemoryStore(clock)

    return partial(support.bench, open_store)
