"""Wake-ups: a hint by NOTIFY, told rarely, heard again after a lost connection, and needed by nothing."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Event
from typing import Any

import asyncpg
import pytest

from holdfast.model.records import Tick
from holdfast.stores.bell import WINDOW
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres.store import PostgresSession
from holdfast.testing.conformance.case import new_job, wanted
from tests.chaos.waiting import until, until_async

SCHEMA = "wakeups"
SOON = 10.0
OTHERS = """
import asyncio, sys
from holdfast.stores.postgres import PostgresStore
from holdfast.testing.conformance.case import new_job
from holdfast.engine.ids import new_id

async def main():
    store = PostgresStore.from_url(sys.argv[1])
    session = await store.connect("n")
    while line := await asyncio.to_thread(sys.stdin.readline):
        for _ in range(int(line)):
            await session.jobs.add([new_job(id=new_id())])
        print("added", flush=True)
    await session.close()
    await store.close()

asyncio.run(main())
"""


class Other:
    """Another process that adds jobs when told to."""

    def __init__(self, url: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", OTHERS, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def add(self, count: int = 1) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "added\n"

    def close(self) -> None:
        self._process.communicate(timeout=SOON)


@asynccontextmanager
async def opened(database: str, options: str = "") -> AsyncIterator[PostgresSession]:
    store = PostgresStore.from_url(f"{database}?schema={SCHEMA}{options}", auto_migrate=True)
    session = await store.connect("n")
    try:
        yield session
    finally:
        await session.close()
        await store.close()


@asynccontextmanager
async def another(database: str) -> AsyncIterator[Other]:
    process = Other(f"{database}?schema={SCHEMA}")
    try:
        yield process
    finally:
        await asyncio.to_thread(process.close)


LISTENERS = """FROM pg_stat_activity
    WHERE datname = current_database() AND query LIKE 'LISTEN%' AND pid <> pg_backend_pid()"""


async def listening(database: str) -> None:
    """Waits until the server has somebody who listens."""
    connection = await asyncpg.connect(database)

    async def is_heard() -> bool:
        count: int = await connection.fetchval(f"SELECT count(*) {LISTENERS} AND state = 'idle'")
        return count > 0

    try:
        await until_async(is_heard, "somebody who listens")
    finally:
        await connection.close()


@pytest.mark.process
async def test_a_job_from_another_process_wakes_the_listener(postgres_database: str) -> None:
    async with opened(postgres_database) as session, another(postgres_database) as other:
        woken = Event()
        stop = session.wakeups.listen(woken.set)
        await listening(postgres_database)
        for _ in range(3):
            woken.clear()
            await asyncio.to_thread(other.add)
            assert await asyncio.to_thread(woken.wait, SOON)
        stop()


@pytest.mark.process
async def test_after_a_lost_connection_it_listens_anew_and_wakes_for_what_was_missed(
    postgres_database: str,
) -> None:
    async with opened(postgres_database) as session, another(postgres_database) as other:
        woken = Event()
        stop = session.wakeups.listen(woken.set)
        await listening(postgres_database)
        woken.clear()
        killer = await asyncpg.connect(postgres_database)
        killed = await killer.fetch(f"SELECT pg_terminate_backend(pid) {LISTENERS}")
        assert killed
        await killer.close()
        assert await asyncio.to_thread(woken.wait, SOON), (
            "everybody is woken, because something may be missed"
        )
        await listening(postgres_database)
        woken.clear()
        await asyncio.to_thread(other.add)
        assert await asyncio.to_thread(woken.wait, SOON)
        stop()


@pytest.mark.process
async def test_many_jobs_one_by_one_are_told_rarely_and_the_last_one_too(postgres_database: str) -> None:
    async with opened(postgres_database) as session, another(postgres_database) as other:
        told: list[float] = []
        stop = session.wakeups.listen(lambda: told.append(time.monotonic()))
        await listening(postgres_database)
        told.clear()
        begun = time.monotonic()
        await asyncio.to_thread(other.add, 200)
        ended = time.monotonic()
        await until(lambda: bool(told) and told[-1] >= ended - WINDOW, "the last one told")
        assert len(told) <= (ended - begun) / WINDOW + 3
        stop()


async def test_each_listener_of_the_process_is_told_once_for_a_job_of_its_own_process(
    postgres_database: str,
) -> None:
    async with opened(postgres_database) as session:
        heard = [0] * 20
        stops = [session.wakeups.listen(_counter(heard, number)) for number in range(len(heard))]
        await listening(postgres_database)
        await until(lambda: min(heard) > 0, "the wake-up that comes with each new listening")
        heard[:] = [0] * len(heard)
        await session.jobs.add([new_job()])
        connection = await asyncpg.connect(postgres_database)
        await connection.execute("SELECT pg_notify($1, 'somebody')", session.wakeups._channel)
        await until(lambda: min(heard) >= 2, "everybody woken twice")
        # Once by the session itself and once by the call that came last; its own NOTIFY is not heard again.
        assert heard == [2] * len(heard)
        await connection.close()
        for stop in stops:
            stop()


async def test_it_can_be_switched_off(postgres_database: str) -> None:
    async with opened(postgres_database, "&notify=off") as session:
        woken = Event()
        stop = session.wakeups.listen(woken.set)
        connection = await asyncpg.connect(postgres_database)
        told: list[Any] = []
        await connection.add_listener(session.wakeups._channel, lambda *heard: told.append(heard))
        await session.jobs.add([new_job()])
        assert woken.is_set(), "within the process nothing need be sent"
        await connection.execute("SELECT pg_notify($1, 'mine')", session.wakeups._channel)
        await until(lambda: bool(told), "a call heard")
        assert [heard[3] for heard in told] == ["mine"]
        claimed = await session.jobs.tick(Tick(worker="ann", seq=1, moves=[], want=wanted()))
        assert not claimed.registered
        stop()
        await connection.close()


def _counter(heard: list[int], number: int) -> Any:
    def wake() -> None:
        heard[number] += 1

    return wake
