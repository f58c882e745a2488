"""A PostgreSQL server that goes away and comes back, or another in its place: workers go on unaided."""

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from holdfast import Job, OutcomeUnknown
from holdfast.engine.ids import new_id
from holdfast.model.errors import StoreUnavailable
from holdfast.model.overrides import Overrides
from tests.chaos import program
from tests.chaos.load import Load, check_unharmed
from tests.chaos.postgres_site import KILL, PostgresSite
from tests.postgres.proxy import Proxy
from tests.servers.postgres import Postgres

pytestmark = pytest.mark.process

SOON = 8.0
"""Seconds within which workers claim again, once the server is back: about two, more if busy."""


async def test_workers_ride_out_restarts_and_crashes_of_the_server(
    tmp_path: Path, private_postgres: Postgres
) -> None:
    async with PostgresSite(tmp_path, private_postgres.url, lease_seconds=30, poll_seconds=0.5) as site:
        workers = await site.workers(2)
        [long] = await site.add(program.wait_for.call("gate"))
        await site.began(long)
        load = Load(site)
        async with load.going_on():
            for mode in ("fast", "immediate", "fast"):
                await load.flows()
                await asyncio.to_thread(private_postgres.restart, mode)
                back = time.monotonic()
                await load.flows()
                assert time.monotonic() - back < SOON
        site.open_gate("gate")
        await site.finished(long, *load.jobs)
        await site.check([long, *load.jobs])
        assert await site.outcomes(long) == ["success"], "the lease was kept"
        check_unharmed(workers)


async def test_killed_backends_cost_nothing_and_wake_ups_return(
    tmp_path: Path, postgres_database: str
) -> None:
    draw = random.Random(3)
    async with PostgresSite(tmp_path, postgres_database, lease_seconds=30, poll_seconds=30) as site:
        workers = await site.workers(2)
        [long] = await site.add(program.wait_for.call("gate"))
        await site.began(long)
        load = Load(site)
        async with load.going_on():
            for _ in range(12):
                await load.flows(draw.randrange(1, 6))
                assert await asyncio.to_thread(site.kill_backends) > 0
            await load.flows()
        await site.finished(*load.jobs)
        await site.check(load.jobs)
        for _ in range(3):
            [job] = await site.add(program.work.call())
            await site.finished(job, within=15)
        site.open_gate("gate")
        await site.finished(long)
        assert await site.outcomes(long) == ["success"]
        check_unharmed(workers)


async def test_a_long_outage_is_waited_out_without_a_busy_loop(
    tmp_path: Path, postgres_database: str
) -> None:
    async with (
        Proxy(postgres_database) as proxy,
        PostgresSite(tmp_path, proxy.url, lease_seconds=20, direct=postgres_database) as site,
    ):
        [worker] = await site.workers(1)
        [long] = await site.add(program.wait_for.call("gate"))
        await site.began(long)
        proxy.fall_down()
        await worker.says('event="circuit opened"')
        while await refused(site) > 0.1:
            pass
        opened = time.monotonic()
        waits = [await refused(site)]
        while time.monotonic() < opened + 3:
            waits.append(await refused(site))
            await asyncio.sleep(0.01)
        assert sum(wait > 0.1 for wait in waits) <= 5, "nobody waits but for a trial"
        tries = [instant for instant in proxy.accepted if instant > opened]
        assert 1 <= len(tries) <= 12, "the trials of both circuits, and the listener's"
        proxy.is_down = False
        back = time.monotonic()
        [job] = await add_at_last(site)
        await site.finished(job)
        assert time.monotonic() - back < SOON + 1
        site.open_gate("gate")
        await site.finished(long)
        assert await site.outcomes(long) == ["success"], "the lease was kept"
        await worker.says('event="circuit closed"')
        check_unharmed([worker])


async def refused(site: PostgresSite) -> float:
    """How long it takes to hear that a job cannot be added."""
    begun = time.monotonic()
    with pytest.raises(StoreUnavailable):
        await site.add(program.work.call())
    return time.monotonic() - begun


async def add_at_last(site: PostgresSite) -> list[Job[Any]]:
    call = program.work.using(id=new_id()).call()
    while True:
        try:
            return await site.add(call)
        except (OutcomeUnknown, StoreUnavailable):
            await asyncio.sleep(0.05)


async def test_workers_follow_to_the_standby_that_is_promoted(
    tmp_path: Path, private_postgres: Postgres
) -> None:
    async def stop(proxy: Proxy) -> None:
        await asyncio.to_thread(private_postgres.stop)

    await fail_over(tmp_path, private_postgres, stop)


async def test_workers_leave_a_server_that_has_become_read_only(
    tmp_path: Path, private_postgres: Postgres
) -> None:
    async def make_read_only(proxy: Proxy) -> None:
        for sql in ("ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"):
            await asyncio.to_thread(private_postgres.execute, sql)

    await fail_over(tmp_path, private_postgres, make_read_only, catch_up)


async def test_workers_leave_a_machine_that_no_longer_answers(
    tmp_path: Path, private_postgres: Postgres
) -> None:
    async def fall_silent(proxy: Proxy) -> None:
        proxy.speaking.clear()

    await fail_over(tmp_path, private_postgres, fall_silent, catch_up)


async def fail_over(
    folder: Path,
    first: Postgres,
    end: Callable[[Proxy], Awaitable[None]],
    settle: Callable[[Postgres, Postgres], None] = lambda first, standby: None,
) -> None:
    standby = await asyncio.to_thread(first.make_standby)
    async with Proxy(first.url) as proxy:
        hosts = f"postgres@127.0.0.1:{proxy.port},127.0.0.1:{standby.port}"
        url = f"postgresql://{hosts}/postgres?target_session_attrs=read-write&timeout=2"
        async with PostgresSite(folder, url, direct=standby.url, lease_seconds=16, poll_seconds=0.5) as site:
            workers = await site.workers(2)
            [long] = await site.add(program.wait_for.call("gate"))
            await site.began(long)
            load = Load(site)
            async with load.going_on():
                await load.flows()
                await end(proxy)
                await asyncio.to_thread(settle, first, standby)
                await asyncio.to_thread(standby.promote)
                back = time.monotonic()
                await load.flows()
                took = time.monotonic() - back
            site.open_gate("gate")
            await site.finished(long, *load.jobs)
            await site.check([long, *load.jobs])
            assert await site.outcomes(long) == ["success"], "the lease was kept"
            check_unharmed(workers)
            assert took < 10, took
            proxy.speaking.set()


def catch_up(first: Postgres, standby: Postgres) -> None:
    """Waits until the standby has all that was committed: what it lacks when it is promoted is lost."""
    [[last]] = first.execute("SELECT pg_current_wal_lsn()::text")
    while not standby.execute("SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn", last)[0][0]:
        time.sleep(0.01)  # blocks on purpose: this runs in a thread


async def test_a_worker_waits_for_a_connection_when_the_server_has_no_more(
    tmp_path: Path, private_postgres: Postgres
) -> None:
    def limit() -> None:
        private_postgres.execute("ALTER SYSTEM SET max_connections = 14")
        private_postgres.restart()

    settings = Overrides(lease_seconds=8, poll_seconds=0.5, reclaim_seconds=0.5)
    async with PostgresSite(tmp_path, private_postgres.url, **settings) as site:
        await asyncio.to_thread(limit)
        [worker] = await site.workers(1)
        async with contextlib.AsyncExitStack() as taken:
            mine = await asyncpg.connect(private_postgres.url)
            taken.push_async_callback(mine.close)
            # A slot that is given up goes to whoever asks first; in the end we have all of them.
            while "too many clients already" not in worker.output:
                await mine.execute(KILL)
                with contextlib.suppress(asyncpg.TooManyConnectionsError):
                    while True:
                        taken.push_async_callback((await asyncpg.connect(private_postgres.url)).close)
                await asyncio.sleep(0.5)
        back = time.monotonic()
        [job] = await add_at_last(site)
        await site.finished(job)
        assert time.monotonic() - back < SOON
        check_unharmed([worker])
