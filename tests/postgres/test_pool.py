"""The pool: who is lent which connection, and what becomes of one that failed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from holdfast.stores.postgres import pool as pools
from holdfast.stores.postgres.pool import Pool

PATIENCE = 5.0


@asynccontextmanager
async def pooled(url: str, most: int) -> AsyncIterator[Pool]:
    pool = Pool(lambda: asyncpg.connect(url), most)
    try:
        yield pool
    finally:
        await pool.close(PATIENCE)


async def waiting(task: asyncio.Task[Any]) -> None:
    """Until the task has nothing to do but wait."""
    for _ in range(20):
        await asyncio.sleep(0)
    assert not task.done()


async def test_the_connection_that_was_returned_last_is_lent_first(postgres_url: str) -> None:
    async with pooled(postgres_url, 2) as pool:
        assert pool.lend() is None
        first, second = await pool.acquire(PATIENCE), await pool.acquire(PATIENCE)
        assert pool.is_full
        pool.release(first)
        pool.release(second)
        assert pool.lend() is second
        assert pool.lend() is first
        assert pool.lend() is None
        pool.release(first)
        pool.release(second)


async def test_those_who_wait_are_served_in_turn_and_one_that_has_left_is_passed_over(
    postgres_url: str,
) -> None:
    async with pooled(postgres_url, 1) as pool:
        held = await pool.acquire(PATIENCE)
        left, first, second = (asyncio.create_task(pool.acquire(PATIENCE)) for _ in range(3))
        await waiting(second)
        left.cancel()
        pool.release(held)
        assert await first is held
        await waiting(second)
        pool.release(held)
        assert await second is held
        pool.release(held)


async def test_one_that_is_cancelled_as_it_is_given_a_connection_passes_it_on(postgres_url: str) -> None:
    async with pooled(postgres_url, 1) as pool:
        held = await pool.acquire(PATIENCE)
        unlucky, lucky = (asyncio.create_task(pool.acquire(PATIENCE)) for _ in range(2))
        await waiting(lucky)
        pool.release(held)
        unlucky.cancel()
        assert await lucky is held
        assert unlucky.cancelled()
        pool.release(held)


async def test_waiting_has_an_end(postgres_url: str) -> None:
    async with pooled(postgres_url, 1) as pool:
        held = await pool.acquire(PATIENCE)
        with pytest.raises(TimeoutError):
            await pool.acquire(0.01)
        pool.release(held)
        assert pool.lend() is held
        pool.release(held)


async def test_one_who_waits_connects_when_a_connection_is_lost_or_cannot_be_made(postgres_url: str) -> None:
    async with pooled(postgres_url, 1) as pool:
        held = await pool.acquire(PATIENCE)
        waiter = asyncio.create_task(pool.acquire(PATIENCE))
        await waiting(waiter)
        held.terminate()
        pool.release(held)
        other = await waiter
        assert other is not held
        assert await other.fetchval("SELECT 7") == 7
        pool.release(other)

    gate = asyncio.Event()
    tries = iter([1, 2])

    async def connect() -> Any:
        await gate.wait()
        if next(tries) == 1:
            raise ConnectionRefusedError
        return await asyncpg.connect(postgres_url)

    pool = Pool(connect, 1)
    refused, served = (asyncio.create_task(pool.acquire(PATIENCE)) for _ in range(2))
    await waiting(served)
    gate.set()
    with pytest.raises(ConnectionRefusedError):
        await refused
    pool.release(await served)
    await pool.close(PATIENCE)


async def test_a_call_that_was_cut_short_is_ended_before_its_connection_is_lent_again(
    postgres_url: str,
) -> None:
    async with pooled(postgres_url, 1) as pool:
        connection = await pool.acquire(PATIENCE)
        with pytest.raises(TimeoutError):
            await connection.execute("SELECT pg_sleep(60)", timeout=0.05)
        pool.mend(connection)
        assert pool.lend() is None
        again = await pool.acquire(PATIENCE)
        assert again is connection
        assert await again.fetchval("SELECT 7") == 7
        pool.release(again)


@pytest.mark.parametrize("way", ["in a transaction", "expired", "closed"])
async def test_a_connection_that_is_of_no_use_is_not_lent_again(postgres_url: str, way: str) -> None:
    async with pooled(postgres_url, 2) as pool:
        idle, held = await pool.acquire(PATIENCE), await pool.acquire(PATIENCE)
        if way == "in a transaction":
            await held.execute("BEGIN")
        elif way == "closed":
            await held.close()
        pool.release(idle)
        if way == "expired":
            pool.expire()
            assert idle.is_closed()
        pool.release(held)
        assert held.is_closed()
        assert not pool.is_full
        other = await pool.acquire(PATIENCE)
        assert (other is idle) == (way != "expired")
        pool.release(other)


async def test_a_connection_that_nobody_needed_for_long_is_closed(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pooled(postgres_url, 2) as pool:
        first, second = await pool.acquire(PATIENCE), await pool.acquire(PATIENCE)
        pool.release(first)
        monkeypatch.setattr(pools, "IDLE", 0.0)
        pool.release(second)
        await asyncio.wait(pool._tasks)
        assert first.is_closed()
        assert not second.is_closed()
        assert not pool.is_full


async def test_the_end_waits_for_what_is_lent_but_not_for_ever(postgres_url: str) -> None:
    pool = Pool(lambda: asyncpg.connect(postgres_url), 2)
    prompt, stuck = await pool.acquire(PATIENCE), await pool.acquire(PATIENCE)
    ending = asyncio.create_task(pool.close(0.05))
    await waiting(ending)
    pool.release(prompt)
    await ending
    assert prompt.is_closed()
    assert stuck.is_closed()


async def test_nothing_is_lent_by_a_pool_that_was_closed_meanwhile(
    postgres_url: str,
) -> None:
    connecting, go_on = asyncio.Event(), asyncio.Event()
    opened: list[Any] = []

    async def connect() -> Any:
        if opened:
            connecting.set()
            await go_on.wait()
        opened.append(await asyncpg.connect(postgres_url))
        return opened[-1]

    pool = Pool(connect, 2)
    held = await pool.acquire(PATIENCE)
    second, third = (asyncio.create_task(pool.acquire(PATIENCE)) for _ in range(2))
    await connecting.wait()
    closing = asyncio.create_task(pool.close(PATIENCE))
    await waiting(closing)
    with pytest.raises(ConnectionError):
        await third
    pool.release(held)
    await waiting(closing)
    go_on.set()
    with pytest.raises(ConnectionError):
        await second
    await closing
    assert all(connection.is_closed() for connection in opened)
    assert len(opened) == 2


async def test_a_call_that_is_cut_short_after_the_end_leaves_no_connection(postgres_url: str) -> None:
    pool = Pool(lambda: asyncpg.connect(postgres_url), 1)
    held = await pool.acquire(PATIENCE)
    call = asyncio.create_task(held.fetchval("SELECT pg_sleep(60)"))
    await waiting(call)
    await pool.close(0.0)
    with pytest.raises(asyncpg.PostgresError):
        await call
    pool.mend(held)
    assert held.is_closed()
    assert len(asyncio.all_tasks()) == 1
