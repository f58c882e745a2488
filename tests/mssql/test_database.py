"""Threads and connections: how many, for whom, and what becomes of them."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast.model.errors import OutcomeUnknown, StoreError, StoreUnavailable
from holdfast.stores.mssql import database as module
from holdfast.stores.mssql import pool as pools
from holdfast.stores.mssql.address import Address, parse
from holdfast.stores.mssql.connecting import Connecting
from holdfast.stores.mssql.database import Database
from holdfast.stores.mssql.driver import SHARE_FOR_LOCKS, Connection, Fault
from holdfast.stores.mssql.seat import TRIES
from tests.mssql.fake_driver import FakeConnection, FakeDriver

DEADLOCK = Fault("was deadlocked on", number=1205)
LOCKED_OUT = Fault("Lock request time out period exceeded.", number=1222)


def address(query: str = "pool=2&timeout=1") -> Address:
    return parse(f"mssql+pytds://ann:s3cr3t@localhost/jobs?{query}")


@asynccontextmanager
async def opened(driver: FakeDriver, query: str = "pool=2&timeout=1") -> AsyncIterator[Database]:
    place = address(query)
    database = Database(place, Connecting(place, driver))
    try:
        yield database
    finally:
        await database.close()


@pytest.fixture
def driver() -> FakeDriver:
    return FakeDriver()


async def test_calls_one_after_the_other_share_a_connection(driver: FakeDriver) -> None:
    async with opened(driver) as database:
        for _ in range(5):
            assert await database.value("one") == "one"
        assert await database.rows("two") == [("two",)]
    [connection] = driver.made
    assert connection.sent == ["one"] * 5 + ["two"]
    assert connection.patience == 1
    assert connection.is_closed


async def test_the_event_loop_goes_on_while_a_call_waits(driver: FakeDriver) -> None:
    slow = driver.hold("slow")
    async with opened(driver) as database:
        call = asyncio.create_task(database.value("slow"))
        await asyncio.to_thread(slow.wait_begun)
        assert await database.value("quick") == "quick"
        assert not call.done()
        slow.let_go()
        assert await call == "slow"
    assert len(driver.made) == 2


async def test_who_finds_all_connections_in_use_waits_in_line_and_is_told_in_the_end(
    driver: FakeDriver,
) -> None:
    slow = driver.hold("slow")
    async with opened(driver) as database:
        calls = [asyncio.create_task(database.value("slow")) for _ in range(2)]
        await asyncio.to_thread(slow.wait_begun, 2)
        with pytest.raises(StoreUnavailable, match="all 2 connections were in use for 1 s; allow more"):
            await database.value("one")
        waiting = asyncio.create_task(database.value("one"))
        await asyncio.sleep(0)
        slow.let_go()
        assert await asyncio.gather(*calls, waiting) == ["slow", "slow", "one"]
    assert len(driver.made) == 2


async def test_transactions_of_handlers_never_keep_calls_waiting(driver: FakeDriver) -> None:
    async with opened(driver) as database, database.begin(), database.begin():
        assert await database.value("one") == "one"
        with pytest.raises(StoreUnavailable, match="all 2 connections"):
            async with database.begin():
                pytest.fail("there is no third one")
    assert sorted(connection.patience or 0 for connection in driver.made) == [0, 0, 1]


async def test_work_that_a_deadlock_ended_is_begun_again_and_rolled_back_before(driver: FakeDriver) -> None:
    runs = 0

    def work(connection: Connection) -> int:
        nonlocal runs
        runs += 1
        connection.begin()
        if runs < TRIES:
            raise DEADLOCK
        connection.commit()
        return runs

    async with opened(driver) as database:
        assert await database.run(work, writes=True) == TRIES
        runs = -100
        with pytest.raises(StoreUnavailable, match="nothing was written"):
            await database.run(work, writes=True)
        assert runs == TRIES - 100
    [connection] = driver.made
    assert sum("ROLLBACK" in sql for sql in connection.sent) == 2 * TRIES - 1


async def test_work_that_persists_is_begun_again_until_it_gets_its_lock(driver: FakeDriver) -> None:
    runs = 0

    def work(connection: Connection) -> int:
        nonlocal runs
        runs += 1
        if runs <= 2 * TRIES:
            raise LOCKED_OUT
        return runs

    async with opened(driver, "pool=2&timeout=60") as database:
        assert await database.run(work, writes=True, persists=True) == 2 * TRIES + 1
    [connection] = driver.made
    assert sum("ROLLBACK" in sql for sql in connection.sent) == 2 * TRIES


async def test_work_that_persists_is_given_up_before_its_answer_is_overdue(driver: FakeDriver) -> None:
    def work(connection: Connection) -> None:
        raise LOCKED_OUT

    async with opened(driver) as database:
        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match="nothing was written"):
            await database.run(work, writes=True, persists=True)
        assert time.monotonic() - began >= SHARE_FOR_LOCKS


async def test_other_faults_are_not_done_again(driver: FakeDriver) -> None:
    runs = 0

    def work(connection: Connection) -> None:
        nonlocal runs
        runs += 1
        raise LOCKED_OUT

    async with opened(driver) as database:
        with pytest.raises(StoreUnavailable):
            await database.run(work, writes=True)
    assert runs == 1


async def test_errors_of_the_work_itself_come_back_as_they_are_and_leave_no_transaction(
    driver: FakeDriver,
) -> None:
    def work(connection: Connection) -> None:
        connection.begin()
        raise KeyError("mine")

    async with opened(driver) as database:
        with pytest.raises(KeyError, match="mine"):
            await database.run(work, writes=True)
        assert await database.value("next") == "next"
    [connection] = driver.made
    assert connection.sent == ["BEGIN TRANSACTION", "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION", "next"]


async def test_a_connection_that_cannot_be_rolled_back_is_dropped(driver: FakeDriver) -> None:
    def fail(connection: FakeConnection) -> list[list[tuple[object, ...]]]:
        raise Fault("is gone", is_lost=True)

    driver.acts["IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION"] = fail

    def work(connection: Connection) -> None:
        raise Fault("Violation of PRIMARY KEY", number=2627)

    async with opened(driver) as database:
        with pytest.raises(StoreError, match="PRIMARY KEY"):
            await database.run(work, writes=True)
        assert await database.value("next") == "next"
    first, second = driver.made
    assert first.is_closed
    assert second.sent == ["next"]


async def test_a_connection_that_died_at_rest_is_replaced_unseen(driver: FakeDriver) -> None:
    async with opened(driver) as database:
        await database.value("one")
        driver.made[0].dead = True
        assert await database.value("two") == "two"
    first, second = driver.made
    assert first.is_closed
    assert second.sent == ["two"]


async def test_a_failure_to_connect_has_sent_nothing(driver: FakeDriver) -> None:
    driver.fault = Fault("nobody listens", is_lost=True)
    async with opened(driver) as database:
        with pytest.raises(StoreUnavailable, match="nothing was written"):
            await database.value("one", writes=True)
        driver.fault = None
        assert await database.value("one") == "one"


async def test_a_silent_server_is_given_up_and_another_takes_its_place(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GRACE", -0.9)
    silent = driver.hold("silent")
    async with opened(driver) as database:
        for _ in range(2):
            await database.value("one")
            with pytest.raises(OutcomeUnknown, match="no answer within 1 s; it may or may not"):
                await database.value("silent", writes=True)
            with pytest.raises(StoreUnavailable, match="nothing was written"):
                await database.value("silent", writes=False)
        assert await database.value("one") == "one"
        assert all(each.was_interrupted.is_set() for each in driver.made if "silent" in each.sent)
        silent.let_go()
    assert len(driver.made) == 5


async def test_threads_that_hang_are_so_many_and_no_more(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GRACE", -0.95)
    monkeypatch.setattr(pools, "MOST_LEFT", 1)
    silent = driver.hold("silent")
    async with opened(driver) as database:
        for _ in range(3):
            await database.value("one")
            with pytest.raises(OutcomeUnknown):
                await database.value("silent", writes=True)
        with pytest.raises(StoreUnavailable, match="all 2 connections"):
            await database.value("one")
        silent.let_go()
        await asyncio.wait({seat.ended for seat in database._calls._left})
        await asyncio.sleep(0)
        assert await database.value("one") == "one"


async def test_a_cancelled_call_ends_by_itself_and_is_waited_for_no_longer_than_any(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GRACE", -0.9)
    slow = driver.hold("slow")
    async with opened(driver) as database:
        await database.value("one")
        call = asyncio.create_task(database.value("slow"))
        await asyncio.to_thread(slow.wait_begun)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        [connection] = driver.made
        assert not connection.was_interrupted.is_set()
        assert await asyncio.to_thread(connection.was_interrupted.wait, 10)
        slow.let_go()


async def test_a_cancelled_commit_is_not_cut_off(driver: FakeDriver) -> None:
    commit = driver.hold("COMMIT TRANSACTION")
    async with opened(driver) as database:

        async def handler() -> None:
            async with database.begin() as transaction:
                await transaction.execute("mine")

        running = asyncio.create_task(handler())
        await asyncio.to_thread(commit.wait_begun)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        commit.let_go()
    [connection] = driver.made
    assert not connection.was_interrupted.is_set()
    assert connection.sent[:3] == ["BEGIN TRANSACTION", "mine", "COMMIT TRANSACTION"]


async def test_a_handler_s_own_error_within_its_work_leaves_its_transaction_alone(driver: FakeDriver) -> None:
    def work(connection: Connection) -> None:
        raise KeyError("mine")

    async with opened(driver) as database, database.begin() as transaction:
        with pytest.raises(KeyError):
            await transaction.run(work)
        await transaction.execute("next")
    [connection] = driver.made
    assert connection.sent == ["BEGIN TRANSACTION", "next", "COMMIT TRANSACTION"]


async def test_long_work_has_no_limit_and_a_connection_of_its_own(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GRACE", -0.95)
    slow = driver.hold("slow")
    async with opened(driver) as database:
        work = asyncio.create_task(
            database.run(lambda connection: connection.execute("slow"), writes=True, is_long=True)
        )
        await asyncio.to_thread(slow.wait_begun)
        done, _ = await asyncio.wait({work}, timeout=0.2)
        assert not done
        slow.let_go()
        assert await work == [[("slow",)]]
    [connection] = driver.made
    assert connection.patience is None


async def test_connections_that_nobody_needs_are_closed(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = driver.hold("slow")
    async with opened(driver) as database:
        calls = [asyncio.create_task(database.value("slow")) for _ in range(2)]
        await asyncio.to_thread(slow.wait_begun, 2)
        slow.let_go()
        await asyncio.gather(*calls)
        monkeypatch.setattr(pools, "IDLE", -1.0)
        await database.value("one")
        assert len(database._calls._all) == 1


async def test_a_closed_session_says_so_and_waits_a_little_for_what_is_under_way(driver: FakeDriver) -> None:
    slow = driver.hold("slow")
    async with opened(driver) as database:
        call = asyncio.create_task(database.value("slow"))
        await asyncio.to_thread(slow.wait_begun)
        closing = asyncio.create_task(database.close())
        await asyncio.sleep(0)
        with pytest.raises(StoreUnavailable, match="the session is closed"):
            await database.value("one")
        slow.let_go()
        assert await call == "slow"
        await closing
    assert all(connection.is_closed for connection in driver.made)


async def test_closing_leaves_no_thread(driver: FakeDriver) -> None:
    def ours() -> set[threading.Thread]:
        return {
            thread for thread in threading.enumerate() if thread.name.startswith("holdfast-mssql")
        } - before

    before: set[threading.Thread] = set()
    before = ours()
    async with opened(driver) as database:
        await database.value("one")
        async with database.begin():
            pass
        assert len(ours()) == 2
    for thread in ours():
        thread.join(5)
        assert not thread.is_alive()
