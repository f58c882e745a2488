"""Ten thousand times fifty contenders take a lock and give it back: none is lost, none is given twice."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast import Holdfast

CONTENDERS = 50
PAIRS = 10_000


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[Holdfast]:
    async with Holdfast(url, auto_migrate=True) as app:
        yield app


async def contend(app: Holdfast, locks: int) -> None:
    """Each contender takes one of the locks over and over. Several suit an engine that commits in groups."""
    inside = [0] * locks
    tokens: list[list[int]] = [[] for _ in range(locks)]
    acquired = released = 0

    def count(kind: str) -> None:
        nonlocal acquired, released
        acquired += kind == "lock_acquired"
        released += kind == "lock_released"

    app.notices.listen(lambda notice: count(notice.kind))

    async def take(number: int) -> None:
        lock = number % locks
        for _ in range(PAIRS // CONTENDERS):
            async with app.lock(f"hot:{lock}") as grant:
                inside[lock] += 1
                assert inside[lock] == 1
                tokens[lock].append(grant.token)
                await asyncio.sleep(0)
                assert inside[lock] == 1
                inside[lock] -= 1

    async with asyncio.TaskGroup() as group:
        for number in range(CONTENDERS):
            group.create_task(take(number))
    given = [token for each in tokens for token in each]
    assert len(given) == len(set(given)) == PAIRS
    assert all(each == sorted(each) for each in tokens)
    assert (acquired, released) == (PAIRS, PAIRS)
    for lock in range(locks):
        grant = await app.try_lock(f"hot:{lock}")
        assert grant is not None, "nobody holds it, nobody is left in line"
        await grant.release()


async def test_on_the_memory_store() -> None:
    async with opened("memory://") as app:
        await contend(app, locks=1)


@pytest.mark.timeout(120)
async def test_on_sqlite(tmp_path: Path) -> None:
    async with opened(f"sqlite:///{tmp_path}/jobs.db") as app:
        await contend(app, locks=5)


@pytest.mark.timeout(120)
async def test_on_postgresql(postgres_database: str) -> None:
    async with opened(postgres_database) as app:
        await contend(app, locks=5)


@pytest.mark.timeout(120)
async def test_on_redis(redis_url: str) -> None:
    async with opened(redis_url) as app:
        await contend(app, locks=1)
