"""Order, links, limits and batches of whole applications, on every store."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from holdfast import Context, Holdfast, Limit, State
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


async def test_of_two_who_change_a_limit_at_once_none_loses_what_the_other_did(url: str) -> None:
    await migrate(url)
    shop = Shop(url)
    shop.app.limits.declare(Limit(rate=7, per=60), key="a")
    async with shop.app as app:
        for number in range(1, 9):
            await asyncio.gather(
                app.limits.set(key="a", concurrency=number),
                app.limits.pause(key="a"),
                app.limits.set(key="a", weight=number),
                app.worker().run(until_idle=True),
            )
            [found] = await app.limits.list()
            assert (found.concurrency, found.paused, found.weight) == (number, True, number)
            await asyncio.gather(app.limits.resume(key="a"), app.limits.set(key="a", weight=1))
            [found] = await app.limits.list()
            assert (found.concurrency, found.paused, found.weight) == (number, False, 1)
            await app.limits.remove(key="a")


async def test_a_limit_that_says_nothing_is_not_kept(url: str) -> None:
    await migrate(url)
    async with Shop(url).app as app:
        await app.limits.set(key="a", weight=2)
        await app.limits.resume(key="b")
        await app.limits.set(key="a", weight=1)
        assert await app.limits.list() == []


async def test_batches_that_are_open_are_found(url: str) -> None:
    await migrate(url)
    shop = Shop(url)
    async with shop.app as app:
        batches = [app.batch() for _ in range(3)]
        for number, batch in enumerate(batches):
            await batch.add(shop.work.call(number))
        assert [each.id for each in await app.batches.opened(2)] == [batch.id for batch in batches[:2]]
        await app.batches.close(batches[0].id)
        await app.batches.cancel(batches[1].id)
        assert [(each.id, each.total) for each in await app.batches.opened()] == [(batches[2].id, 1)]
