import asyncio
import os
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast import BlockingCallOnLoop, Grant, Holdfast, InvalidLock, LockLost, LockTimeout, NotOpen
from holdfast.testing.app import Testing
from tests.chaos.waiting import until

PATIENCE = 20


@pytest.fixture
def app() -> Iterator[Holdfast]:
    with Holdfast("memory://") as app:
        yield app


async def test_an_application_has_locks(app: Holdfast) -> None:
    async with app:
        async with app.lock("invoice:42", ttl=30, wait=10) as grant:
            assert isinstance(grant, Grant)
            assert grant.token > 0
            assert await app.try_lock("invoice:42") is None
            with pytest.raises(LockTimeout):
                async with app.lock("invoice:42", wait=timedelta(0)):
                    pytest.fail("not reached")
        second = await app.try_lock("invoice:42", ttl=5)
        assert second is not None
        assert second.token > grant.token
        await second.release()


async def test_held_locks_are_listed_with_who_holds_them(app: Holdfast) -> None:
    async with app, app.lock("b") as second, app.lock("a") as first, app.lock("holdfast.own"):
        listed = await app.held_locks()
        assert [(lock.name, lock.token, lock.internal) for lock in listed[:2]] == [
            ("a", first.token, False),
            ("b", second.token, False),
        ]
        assert (listed[2].name, listed[2].internal) == ("holdfast.own", True)
        assert all(lock.owner.endswith(f"-{os.getpid()}") for lock in listed)
        assert all(0 < lock.left <= 30 and lock.partition is None for lock in listed)
        assert [lock.name for lock in await app.held_locks(1, after="a")] == ["b"]
        for limit in (0, 1_001, True):
            with pytest.raises(InvalidLock, match="between 1 and 1000"):
                await app.held_locks(limit)
    async with app:
        assert await app.held_locks() == []


async def test_locks_need_an_open_application(app: Holdfast) -> None:
    with pytest.raises(NotOpen):
        app.lock("a")
    with pytest.raises(NotOpen):
        await app.try_lock("a")


async def test_leaving_the_application_ends_the_thread_that_renews(app: Holdfast) -> None:
    async with app, app.lock("a"):
        assert "holdfast-locks" in {thread.name for thread in threading.enumerate()}
    assert "holdfast-locks" not in {thread.name for thread in threading.enumerate()}


async def test_a_blocking_lock_on_an_event_loop_names_the_async_call(app: Holdfast) -> None:
    with pytest.raises(BlockingCallOnLoop, match=r"`async with app\.lock\(\.\.\.\)`"):
        app.sync_lock("a")


def test_blocking_code_has_the_same_locks(app: Holdfast) -> None:
    with app.sync_lock("a") as grant:
        assert not grant.lost
        grant.check()
        with pytest.raises(LockTimeout), app.sync_lock("a", wait=0):
            pytest.fail("not reached")
    with app.sync_lock("a", wait=0) as second:
        assert second.token > grant.token
    with pytest.raises(InvalidLock), app.sync_lock("a b"):
        pytest.fail("not reached")


def test_threads_hold_it_one_at_a_time(app: Holdfast) -> None:
    inside: list[int] = []
    tokens: list[int] = []

    def contend(number: int) -> None:
        for _ in range(20):
            with app.sync_lock("a") as grant:
                inside.append(number)
                assert inside == [number]
                tokens.append(grant.token)
                inside.remove(number)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(contend, range(8)))
    assert len(tokens) == 160
    assert tokens == sorted(set(tokens))


async def test_async_and_blocking_code_exclude_each_other(app: Holdfast) -> None:
    entered, leave = threading.Event(), threading.Event()

    def hold() -> int:
        with app.sync_lock("a") as grant:
            entered.set()
            assert leave.wait(PATIENCE)
            return grant.token

    async with app:
        holding = asyncio.create_task(asyncio.to_thread(hold))
        assert await asyncio.to_thread(entered.wait, PATIENCE)
        assert await app.try_lock("a") is None
        waiting = asyncio.create_task(app.client.locks.acquire("a"))
        leave.set()
        assert (await waiting).token > await holding
        await asyncio.to_thread(app.sync.close)


def standing_in_line(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "jobs.db")) as connection:
        found: int = connection.execute("SELECT count(*) FROM holdfast_lock_line").fetchone()[0]
    return found


def test_one_who_waits_is_told_when_the_application_is_closed_and_leaves_the_line(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    with Holdfast(url) as app, Holdfast(url) as other, ThreadPoolExecutor(1) as thread:
        with other.sync_lock("a"):
            waiting = thread.submit(lambda: app.sync_lock("a", ttl=30).__enter__())
            asyncio.run(until(lambda: standing_in_line(tmp_path), "it stands in line"))
            app.sync.close()
            with pytest.raises(NotOpen, match=r"closed while app\.lock was under way"):
                waiting.result(PATIENCE)
        with other.sync_lock("a", wait=0) as grant:
            assert not grant.lost


@pytest.mark.parametrize("store", ["sqlite", "postgres_database", "redis_url"])
def test_a_lock_that_is_held_when_the_application_is_closed_is_lost_and_free(
    store: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db" if store == "sqlite" else request.getfixturevalue(store)
    with Holdfast(url, auto_migrate=True) as app:

        def hold() -> None:
            with app.sync_lock("a"):
                app.sync.close()

        with pytest.raises(LockLost):
            hold()
        with app.sync_lock("a", wait=0) as grant:
            assert not grant.lost


def test_a_blocking_block_is_told_of_the_loss_and_ends_with_it(app: Holdfast) -> None:
    def hold(testing: Testing) -> None:
        with app.sync_lock("a", ttl=0.3) as grant:
            testing.clock.advance(1)
            assert grant.lost.wait(PATIENCE)
            with pytest.raises(LockLost):
                grant.check()

    with app.testing() as testing, pytest.raises(LockLost, match="lock a with token"):
        hold(testing)


def test_what_a_blocking_block_raises_counts_for_more_than_the_loss(app: Holdfast) -> None:
    def hold(testing: Testing) -> None:
        with app.sync_lock("a", ttl=0.3) as grant:
            testing.clock.advance(1)
            assert grant.lost.wait(PATIENCE)
            raise ZeroDivisionError

    with app.testing() as testing, pytest.raises(ZeroDivisionError):
        hold(testing)


async def test_a_worker_is_told_how_long_a_lock_was_waited_for(app: Holdfast) -> None:
    async with app:
        grant = await app.try_lock("a")
        assert grant is not None
        told = asyncio.create_task(app.notices.wait_for("lock_acquired", lock="a"))
        waiting = asyncio.create_task(app.client.locks.acquire("a"))
        await asyncio.sleep(0)
        await grant.release()
        second = await waiting
        facts = (await told).facts
        assert facts["token"] == second.token
        assert facts["waited"] > 0
        released = asyncio.create_task(app.notices.wait_for("lock_released", lock="a"))
        await asyncio.sleep(0)
        await second.release()
        assert (await released).facts["held"] >= 0


def test_a_forked_child_does_not_have_its_parents_lock_and_leaves_it_alone(tmp_path: Path) -> None:
    with Holdfast(f"sqlite:///{tmp_path}/jobs.db") as app:
        block = app.sync_lock("a")
        grant = block.__enter__()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = 2 if not grant.lost or grant.is_ours else 3
                block.__exit__(None, None, None)
            except LockLost:
                code = 0 if code == 3 else code
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        with pytest.raises(LockTimeout), app.sync_lock("a", wait=0):
            pytest.fail("the child has freed it")
        assert not grant.lost
        block.__exit__(None, None, None)
        with app.sync_lock("a", wait=0) as second:
            assert second.token > grant.token
