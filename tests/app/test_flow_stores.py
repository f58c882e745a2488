"""Order and links of whole applications, on every store."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from holdfast import Context, Holdfast, State
from holdfast.stores import open_store

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        return "memory://"
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    fixtures = {"postgres": "postgres_database", "redis": "redis_url"}
    found: str = request.getfixturevalue(fixtures[request.param])
    return found


async def migrate(url: str) -> None:
    store = open_store(url)
    if store.migrations is not None:
        await store.migrations.apply()
    await store.close()


class Shop:
    """An application that notes what it ran."""

    def __init__(self, url: str, **settings: Any) -> None:
        self.app = Holdfast(url, leader_candidate=False, poll_seconds=0.05, **settings)
        self.ran: list[int] = []

        @self.app.task
        async def work(number: int) -> None:
            self.ran.append(number)

        @self.app.task
        async def plant(ctx: Context, number: int) -> None:
            self.ran.append(number)
            first = ctx.enqueue(work.using(delay=0).call(number + 1))
            ctx.enqueue(work.using(after=[first, ctx.job.id]).call(number + 2))

        self.work = work
        self.plant = plant

    async def drain(self) -> None:
        assert await self.app.worker().run(until_idle=True) == 0


async def test_jobs_of_one_call_come_after_each_other_though_they_are_stored_in_several_commits(
    url: str,
) -> None:
    await migrate(url)
    shop = Shop(url, batch=3)
    async with shop.app:
        jobs = await shop.app.enqueue_many([shop.work.call(number) for number in range(4)])
        chain = await shop.app.enqueue_many(
            [
                shop.work.using(after=[jobs[number % 4]], priority=-number).call(number)
                for number in range(4, 14)
            ]
        )
        await shop.work.using(after=chain).enqueue(99)
        await shop.drain()
        assert sorted(shop.ran) == [*range(14), 99]
        assert shop.ran[-1] == 99
        assert all(shop.ran.index(number % 4) < shop.ran.index(number) for number in range(4, 14))


async def test_one_call_may_hold_a_chain_whose_ids_are_given(url: str) -> None:
    await migrate(url)
    shop = Shop(url, batch=2, concurrency=8)
    ids = [f"01a1e53f-0000-7000-8000-00000000000{number}" for number in range(7)]
    async with shop.app:
        first = shop.work.using(id=ids[0]).call(0)
        others = [
            shop.work.using(id=ids[number], after=[ids[number - 1]]).call(number) for number in range(1, 7)
        ]
        await shop.app.enqueue_many([first, *others])
        await shop.drain()
        assert shop.ran == list(range(7))


async def test_children_come_after_each_other(url: str) -> None:
    await migrate(url)
    shop = Shop(url)
    async with shop.app:
        await shop.plant.enqueue(0)
        await shop.drain()
        assert shop.ran == [0, 1, 2]


async def test_a_job_that_is_enqueued_in_a_transaction_comes_after_others(
    tmp_path: Path, postgres_database: str
) -> None:
    for url in (f"sqlite:///{tmp_path}/jobs.db", postgres_database):
        await migrate(url)
        shop = Shop(url)
        async with shop.app:
            first = await shop.work.enqueue(1)
            await _in_transaction(url, shop, first.id)
            await shop.drain()
            assert shop.ran == [1, 2]
            states = [job.state for job in await shop.app.find()]
            assert states == [State.SUCCESS] * 2


async def _in_transaction(url: str, shop: Shop, first: str) -> None:
    task = shop.work.using(after=[first], priority=-5)
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            task.enqueue_in_sync(connection, 7)
            connection.execute("ROLLBACK")
            connection.execute("BEGIN IMMEDIATE")
            task.enqueue_in_sync(connection, 2)
            connection.execute("COMMIT")
        return
    connection = await asyncpg.connect(url)
    try:
        transaction = connection.transaction()
        await transaction.start()
        await task.enqueue_in(connection, 7)
        await transaction.rollback()
        async with connection.transaction():
            await task.enqueue_in(connection, 2)
    finally:
        await connection.close()
