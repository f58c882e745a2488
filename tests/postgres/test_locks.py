"""What is special to locks on PostgreSQL."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import asyncpg

from holdfast.model.records import LockHold, LockWish
from holdfast.model.timing import SECOND
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres.store import PostgresSession
from tests.chaos.waiting import until, until_async

NAME = "invoice:42"
WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


def wish(owner: str, ttl: int = 60 * SECOND, place: int = 0, name: str = NAME) -> LockWish:
    return LockWish(name=name, owner=owner, ttl=ttl, place=place)


@asynccontextmanager
async def session(url: str) -> AsyncGenerator[PostgresSession]:
    store = PostgresStore.from_url(url, auto_migrate=True)
    opened = await store.connect("default")
    try:
        yield opened
    finally:
        await opened.close()
        await store.close()


@asynccontextmanager
async def connection(url: str) -> AsyncGenerator[Any]:
    opened = await asyncpg.connect(url)
    try:
        yield opened
    finally:
        await opened.close()


async def test_a_renewal_that_commits_after_the_lease_has_ended_keeps_others_out(
    postgres_database: str,
) -> None:
    """It was in time by the store's clock, and says so; then nobody else may have been granted the lock."""
    async with (
        session(postgres_database) as ours,
        session(postgres_database) as theirs,
        connection(postgres_database) as slow,
        connection(postgres_database) as watch,
    ):
        token = (await ours.locks.acquire(wish("ann", ttl=SECOND))).token
        transaction = slow.transaction()
        await transaction.start()
        args = (1, [NAME], ["ann"], [token], [60 * SECOND])
        assert await slow.fetchval("SELECT holdfast.lock_renew_v1($1, $2, $3, $4, $5)", *args) == [True]
        ended = "SELECT until <= holdfast.now_v1() FROM holdfast.lock"
        await until_async(lambda: watch.fetchval(ended), "the lease has ended for all others")
        asking = asyncio.create_task(theirs.locks.acquire(wish("bob")))
        await until_async(lambda: watch.fetchval(WAITING), "it waits for the renewal")
        await transaction.commit()
        assert (await asking).token is None


async def test_a_renewal_that_comes_after_a_grant_is_refused(postgres_database: str) -> None:
    async with (
        session(postgres_database) as ours,
        connection(postgres_database) as slow,
        connection(postgres_database) as watch,
    ):
        token = (await ours.locks.acquire(wish("ann", ttl=SECOND // 5))).token
        assert token is not None
        ended = "SELECT until <= holdfast.now_v1() FROM holdfast.lock"
        await until_async(lambda: watch.fetchval(ended), "the lease has ended")
        transaction = slow.transaction()
        await transaction.start()
        granted = await slow.fetchrow(
            "SELECT * FROM holdfast.lock_acquire_v1(1, $1, 'bob', $2, 0, 'm')", NAME, SECOND
        )
        assert granted["token"] > token
        hold = LockHold(name=NAME, owner="ann", token=token, ttl=SECOND)
        assert await ours.locks.renew([hold]) == [False]
        await transaction.commit()
        assert await ours.locks.renew([hold]) == [False]


async def test_of_two_who_ask_for_a_free_lock_at_once_the_second_waits_for_the_first(
    postgres_database: str,
) -> None:
    async with (
        session(postgres_database) as ours,
        connection(postgres_database) as slow,
        connection(postgres_database) as watch,
    ):
        transaction = slow.transaction()
        await transaction.start()
        acquire = "SELECT * FROM holdfast.lock_acquire_v1(1, $1, 'ann', $2, 0, 'm')"
        assert (await slow.fetchrow(acquire, NAME, 60 * SECOND))["token"] is not None
        asking = asyncio.create_task(ours.locks.acquire(wish("bob")))
        await until_async(lambda: watch.fetchval(WAITING), "it waits")
        await transaction.commit()
        assert (await asking).token is None


async def test_only_the_first_in_line_is_called(postgres_database: str) -> None:
    """Also in another store of the same process; whoever waits for jobs hears nothing."""
    async with session(postgres_database) as ours, session(postgres_database) as theirs:
        token = (await ours.locks.acquire(wish("ann"))).token
        called: list[str] = []
        stops = [theirs.locks.listen(owner, partial(called.append, owner)) for owner in ("bob", "cid")]
        for owner in ("bob", "cid"):
            assert (await theirs.locks.acquire(wish(owner, place=60 * SECOND))).token is None
        await until(lambda: sorted(called), "it listens, and has woken all once", ["bob", "cid"].__eq__)
        called.clear()
        stop = theirs.wakeups.listen(lambda: called.append("worker"))
        await ours.locks.release(NAME, "ann", token)
        await until(lambda: called, "the first is called")
        token = (await theirs.locks.acquire(wish("bob"))).token
        await theirs.locks.release(NAME, "bob", token)
        await until(lambda: called[1:], "the second is called")
        assert called == ["bob", "cid"]
        for end in (*stops, stop):
            end()


async def test_where_nothing_can_be_told_a_waiter_asks_again_soon(postgres_database: str) -> None:
    async with session(f"{postgres_database}?notify=off") as ours:
        await ours.locks.acquire(wish("ann"))
        answer = await ours.locks.acquire(wish("bob", place=SECOND))
        assert answer.token is None
        assert 0 < answer.after <= SECOND // 10


async def test_locks_and_places_that_ended_long_ago_are_swept_away(postgres_database: str) -> None:
    async with session(postgres_database) as ours, connection(postgres_database) as watch:
        for number in range(4):
            await ours.locks.acquire(wish("ann", name=f"old-{number}"))
            await ours.locks.acquire(wish("bob", name=f"old-{number}", place=SECOND))
        await watch.execute("UPDATE holdfast.lock SET until = 1; UPDATE holdfast.lock_line SET until = 1")
        last = 0
        for _ in range(2):
            answer = await ours.locks.acquire(wish("ann"))
            assert answer.token is not None
            assert answer.token > last
            last = answer.token
            await ours.locks.release(NAME, "ann", last)
        assert await watch.fetchval("SELECT count(*) FROM holdfast.lock") == 0
        assert await watch.fetchval("SELECT count(*) FROM holdfast.lock_line") == 0
        assert await watch.fetchval("SELECT token FROM holdfast.lock_token") == last
