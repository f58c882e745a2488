"""What goes wrong between us and a server: told as what it is and in time, or not noticed at all."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import asyncpg
import pytest

from holdfast import OutcomeUnknown
from holdfast.model.errors import ConfigurationError, StoreError, StoreFull, StoreUnavailable
from holdfast.model.records import JobRecord, Ticked, Verdict
from holdfast.stores import open_store
from holdfast.stores.postgres.faults import translated
from holdfast.stores.resilient import Breaker, ResilientStore
from holdfast.testing.conformance.case import new_job
from tests.chaos.waiting import until_async
from tests.postgres.fault_support import ANN, SCHEMA, Rig, claiming, moving, rig

PASSING = (
    *("0A000", "25006", "26000", "40001", "40P01", "53000", "53200", "53300", "53400"),
    *("55000", "55006", "55P03", "57014", "57P03"),
)
KILL = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'holdfast'"""
CUT_OFF = ("08006", "40003", "57P01", "57P02", "57P04", "25P03", "25P04")
SOON = 2.5
"""Longer than a machine stands still; less than retries and the store's own patience take."""

# Pausing a queue of such a name fails with that code, two times out of three.
TRAP = f"""
    CREATE SEQUENCE IF NOT EXISTS {SCHEMA}.falls;
    CREATE OR REPLACE FUNCTION {SCHEMA}.fall() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW.name LIKE 'fall %' AND nextval('{SCHEMA}.falls') % 3 <> 0 THEN
            RAISE EXCEPTION 'as asked' USING ERRCODE = split_part(NEW.name, ' ', 2);
        END IF;
        RETURN NEW;
    END $$;
    CREATE OR REPLACE TRIGGER fall BEFORE INSERT ON {SCHEMA}.queue
    FOR EACH ROW EXECUTE FUNCTION {SCHEMA}.fall();
"""


@asynccontextmanager
async def trapped(url: str) -> AsyncGenerator[Rig]:
    async with rig(url) as here, stranger(here) as connection:
        await connection.execute(TRAP)
        await connection.execute(f"ALTER SEQUENCE {SCHEMA}.falls RESTART")
        yield here


@asynccontextmanager
async def stranger(here: Rig) -> AsyncGenerator[Any]:
    """Somebody else in the same database."""
    connection = await asyncpg.connect(here.server)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def locked(here: Rig, *jobs: JobRecord) -> AsyncGenerator[Any]:
    """Somebody else has these jobs locked."""
    async with stranger(here) as connection, connection.transaction():
        await lock(connection, *jobs)
        yield connection


async def lock(connection: Any, *jobs: JobRecord) -> None:
    for job in jobs:
        await connection.execute(f"SELECT FROM {SCHEMA}.job WHERE id = $1 FOR UPDATE", job.id)


async def someone_waits(here: Rig, number: int = 1) -> None:
    async with stranger(here) as connection:
        await until_async(
            lambda: connection.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
                "AND datname = current_database() AND application_name = 'holdfast'"
            ),
            "a call waits for a lock",
            number.__eq__,
        )


async def seconds(call: Callable[[], Awaitable[object]], fault: type[Exception]) -> float:
    """How long the call takes to fail so."""
    begun = time.monotonic()
    with pytest.raises(fault) as caught:
        await call()
    assert type(caught.value) is fault, caught.value
    return time.monotonic() - begun


async def test_what_passes_by_itself_is_told_as_not_done_and_not_noticed_through_the_wrapper(
    postgres_url: str,
) -> None:
    async with trapped(postgres_url) as here:
        for code in PASSING:
            for _ in range(2):
                await seconds(lambda: here.bare.fleet.pause(f"fall {code}"), StoreUnavailable)  # noqa: B023
            await here.bare.fleet.pause(f"fall {code}")
        for code in PASSING:
            await here.resilient.fleet.pause(f"fall {code}")
        assert len(await here.plain.fleet.queues()) == len(PASSING)


async def test_a_full_disk_and_a_bug_are_told_at_once(postgres_url: str) -> None:
    async with trapped(postgres_url) as here:
        for session in (here.bare, here.resilient):
            with pytest.raises(StoreFull):
                await session.fleet.pause("fall 53100")
            with pytest.raises(StoreError, match="as asked") as caught:
                await session.fleet.pause("fall 23514")
            assert not isinstance(caught.value, StoreUnavailable)
            assert await here.plain.fleet.queues() == []
            await session.fleet.pause("fall 23514")
            await here.plain.fleet.resume("fall 23514")
            here.sql(f"DELETE FROM {SCHEMA}.queue")


def test_an_end_of_the_session_leaves_a_change_unknown_and_a_query_not_done() -> None:
    for code in CUT_OFF:
        error = asyncpg.PostgresError.new({"C": code, "S": "FATAL", "M": "as asked"})
        assert type(translated(error, "here", sent=True)) is OutcomeUnknown
        assert type(translated(error, "here", sent=False)) is StoreUnavailable


async def test_what_the_driver_itself_refuses_is_no_outage(postgres_url: str) -> None:
    async with rig(postgres_url) as here:
        for session in (here.bare, here.resilient):
            took = await seconds(lambda: session.jobs.add([new_job(priority=2**70)]), StoreError)  # noqa: B023
            assert took < SOON
    wrong = open_store(f"{postgres_url}?target_session_attrs=writable")
    assert await seconds(lambda: wrong.connect("any"), ConfigurationError) < SOON
    absent = open_store(f"{postgres_url}_absent")
    assert await seconds(lambda: absent.connect("any"), ConfigurationError) < SOON


async def test_a_deadlock_is_done_again(postgres_url: str) -> None:
    # A server looks for a deadlock once, so long after a wait began.
    async with rig(postgres_url, "&deadlock_timeout=600ms") as here:
        seqs = count(1)

        async def embrace(session: Any) -> tuple[list[JobRecord], asyncio.Task[Ticked]]:
            """A tick that has one job and waits for the other, which somebody has who waits for the first."""
            low, high = sorted(await here.claim(2, next(seqs)), key=lambda job: job.id)
            async with locked(here, high) as connection:
                await connection.execute("SET LOCAL deadlock_timeout = '20s'")
                tick = asyncio.create_task(session.jobs.tick(moving(next(seqs), low, high)))
                await someone_waits(here)
                await lock(connection, low)
                if session is here.bare:
                    await asyncio.wait([tick])
            await asyncio.wait([tick])
            return [low, high], tick

        async def embrace_until(
            session: Any, is_met: Callable[[asyncio.Task[Ticked]], bool]
        ) -> list[JobRecord]:
            # The tick itself waits for a second: a machine that stands still for longer parts the two.
            for _ in range(5):
                jobs, tick = await embrace(session)
                if is_met(tick):
                    return jobs
            raise AssertionError(tick)

        def is_told(tick: asyncio.Task[Ticked]) -> bool:
            error = tick.exception()
            return isinstance(error, StoreUnavailable) and "deadlock detected" in str(error)

        def is_done(tick: asyncio.Task[Ticked]) -> bool:
            return tick.result().verdicts == [Verdict.ACCEPTED] * 2

        await embrace_until(here.bare, is_told)
        for job in await embrace_until(here.resilient, is_done):
            assert [each.outcome.value for each in await here.plain.jobs.history(job.id)] == ["success"]


@pytest.mark.parametrize("limit", ["statement_timeout", "lock_timeout"])
async def test_a_call_that_the_server_cuts_short_is_done_again(postgres_url: str, limit: str) -> None:
    async with rig(postgres_url, f"&{limit}=100ms") as here:
        [job] = await here.add()
        async with locked(here, job):
            await seconds(lambda: here.bare.jobs.delete(job.id), StoreUnavailable)
            delete = asyncio.create_task(here.resilient.jobs.delete(job.id))
            await someone_waits(here)
        assert await delete
        assert await here.plain.jobs.get(job.id) is None


async def test_killed_backends_are_not_noticed_through_the_wrapper(postgres_url: str) -> None:
    async with rig(postgres_url) as here:
        for number in range(5):
            await here.resilient.jobs.add([new_job()])
            calls = [asyncio.create_task(here.resilient.jobs.add([new_job()])) for _ in range(6)]
            await asyncio.to_thread(here.sql, KILL)
            await asyncio.gather(*calls)
            ticked = await here.resilient.jobs.tick(claiming(number, limit=7))
            assert len(ticked.claimed) == 7


async def test_a_call_about_nothing_does_not_tell_that_the_store_is_back(postgres_url: str) -> None:
    async with rig(postgres_url) as here:
        breaker = Breaker(failures=2, outage_seconds=0)
        session = await here.connect(ResilientStore(here.through_proxy(), retry_seconds=0, breaker=breaker))
        here.proxy.fall_down()
        while not breaker.is_open:
            with pytest.raises(StoreUnavailable):
                await session.jobs.count()
        assert await session.jobs.extend(ANN, []) == []
        assert await session.jobs.add([]) == []
        assert await session.jobs.states([]) == []
        assert breaker.is_open


async def test_a_pool_that_is_used_up_is_told_in_time_and_keeps_no_call_waiting(postgres_url: str) -> None:
    async with rig(postgres_url, "&pool=2&timeout=0.4") as here:
        transactions = here.through_proxy().transactions
        async with transactions.begin(), transactions.begin():
            with pytest.raises(StoreUnavailable, match=r"all 2 connections were in use .* pool="):
                async with transactions.begin():
                    raise AssertionError("a third")
            await here.bare.jobs.add([new_job()])
        async with transactions.begin() as connection:
            assert await connection.fetchval("SELECT 1") == 1
        await transactions.close()


async def test_a_server_that_says_nothing_costs_no_more_than_the_timeout(postgres_url: str) -> None:
    async with rig(postgres_url, "&timeout=0.4") as here:
        store = here.through_proxy()
        await here.bare.jobs.add([new_job()])
        here.proxy.speaking.clear()
        job = new_job()

        async def transact() -> None:
            async with store.transactions.begin():
                raise AssertionError("it must not begin")

        # One connection is open, and its call is perhaps done; what waits for another is not.
        assert await seconds(lambda: here.bare.jobs.add([job]), OutcomeUnknown) < SOON
        assert await seconds(lambda: here.bare.jobs.add([job]), StoreUnavailable) < SOON
        assert await seconds(transact, StoreUnavailable) < SOON
        crowd = [seconds(lambda: here.bare.jobs.add([job]), StoreUnavailable) for _ in range(12)]
        assert max(await asyncio.gather(*crowd)) < SOON
        fresh = await seconds(lambda: store.connect("any"), StoreUnavailable)
        assert fresh < SOON
        here.proxy.speaking.set()
        assert (await here.bare.jobs.add([job]))[0].record.id == job.id
        await store.close()


async def test_a_call_that_its_caller_gives_up_ends_at_once(postgres_url: str) -> None:
    async with rig(postgres_url, "&timeout=30") as here:
        await here.bare.jobs.add([new_job()])
        here.proxy.speaking.clear()

        async def cut_short() -> None:
            async with asyncio.timeout(0.1):
                await here.bare.jobs.add([new_job()])

        assert await seconds(cut_short, TimeoutError) < SOON


async def test_a_transaction_on_a_server_that_falls_silent_ends_soon(postgres_url: str) -> None:
    async with rig(postgres_url, "&timeout=30") as here:
        store = here.through_proxy()

        async def transact() -> None:
            async with store.transactions.begin():
                here.proxy.speaking.clear()
                raise KeyError("the handler's own")

        assert await seconds(transact, KeyError) < 10
        here.proxy.speaking.set()
        await store.close()


async def test_a_commit_that_is_not_answered_is_waited_for_no_longer_than_the_timeout(
    postgres_url: str,
) -> None:
    async with rig(postgres_url, "&timeout=0.4") as here:
        store = here.through_proxy()
        job = new_job()

        async def transact() -> None:
            async with store.transactions.begin() as connection:
                await connection.execute("SELECT pg_sleep(0.6)")  # a handler's own statement may take longer
                await store.transactions.add_in(connection, here.namespace, [job])
                here.proxy.lose("^COMMIT", is_silent=True)

        assert await seconds(transact, OutcomeUnknown) < 0.6 + SOON
        assert await here.plain.jobs.get(job.id) is not None
        await store.close()


async def test_a_cancelled_call_gives_its_connection_back(postgres_url: str) -> None:
    async with rig(postgres_url, "&pool=2&timeout=5") as here:
        [job] = await here.add()
        async with locked(here, job):
            for _ in range(5):
                calls = [asyncio.create_task(here.bare.jobs.delete(job.id)) for _ in range(2)]
                await someone_waits(here, 2)
                for call in calls:
                    call.cancel()
                await asyncio.wait(calls)
                await someone_waits(here, 0)
            assert await here.bare.jobs.get(job.id) is not None
        assert len(here.proxy.accepted) < 20, "they were used again, or at least not all replaced"


async def test_whoever_serves_read_only_is_left_for_one_who_does_not(postgres_url: str) -> None:
    async with rig(postgres_url) as here, stranger(here) as connection:
        store = here.through_proxy()
        database = await connection.fetchval("SELECT current_database()")

        async def transact() -> None:
            async with store.transactions.begin() as writing:
                await store.transactions.add_in(writing, here.namespace, [new_job()])

        def transact_blocking() -> None:
            with store.transactions.begin_sync() as writing:
                store.transactions.add_in_sync(writing, here.namespace, [new_job()])

        def look() -> None:
            with store.transactions.begin_sync() as looking:
                looking.execute("SELECT 1")

        await connection.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
        try:
            session = await here.connect(here.through_proxy())
            await asyncio.gather(*(session.jobs.count() for _ in range(3)))
            async with store.transactions.begin(), store.transactions.begin():
                pass
            await asyncio.to_thread(look)
        finally:
            await connection.execute(f"ALTER DATABASE {database} RESET default_transaction_read_only")
        await seconds(lambda: session.jobs.add([new_job()]), StoreUnavailable)
        await session.jobs.add([new_job()])
        await seconds(transact, StoreUnavailable)
        await transact()
        await seconds(lambda: asyncio.to_thread(transact_blocking), StoreUnavailable)
        await asyncio.to_thread(transact_blocking)
        await store.close()


def test_an_error_of_the_callers_own_is_raised_again_and_is_not_its_own_cause() -> None:
    for error in (ValueError("a value"), StoreUnavailable("away")):
        with pytest.raises(type(error)) as raised:
            raise translated(error, "here", sent=True) from error
        assert raised.value is error
        assert error.__cause__ is None
