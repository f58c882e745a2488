"""Group commit: callers share transactions, and nobody pays for another."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.model.errors import KeyConflict, StoreUnavailable
from holdfast.model.records import Edit, Extension, Query
from holdfast.stores.sqlite.store import SqliteSession
from holdfast.stores.sqlite.transaction import Transaction
from holdfast.stores.sqlite.writer import Writer
from tests.sqlite.support import LONG, Child, file_of, new_job, register, session_at, tick, url_of


class Commits:
    """Counts the transactions of the writer, and can hold the next one back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.gate = threading.Event()
        self.gate.set()
        begin = Writer._begin

        def counted(writer: Writer, connection: sqlite3.Connection) -> None:
            self.gate.wait()
            self.count += 1
            begin(writer, connection)

        monkeypatch.setattr(Writer, "_begin", counted)


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> Commits:
    return Commits(monkeypatch)


def write(session: SqliteSession, work: Callable[[Transaction], object]) -> "asyncio.Future[object]":
    assert session._database is not None
    return session._database.write(1, work)


async def test_concurrent_callers_share_commits(tmp_path: Path, commits: Commits) -> None:
    async with session_at(tmp_path) as session:
        before = commits.count
        commits.gate.clear()
        adds = [asyncio.ensure_future(session.jobs.add([new_job()])) for _ in range(100)]
        await asyncio.sleep(0)
        commits.gate.set()
        answers = await asyncio.gather(*adds)
        assert all(answer[0].created for answer in answers)
        assert commits.count - before <= 2


async def test_a_call_that_fails_takes_nobody_with_it(tmp_path: Path, commits: Commits) -> None:
    def write_and_fail(tx: Transaction) -> None:
        tx.run("pause", queue="half-done")
        raise ZeroDivisionError

    async with session_at(tmp_path) as session:
        commits.gate.clear()
        good = [asyncio.ensure_future(session.jobs.add([new_job()])) for _ in range(3)]
        bad = write(session, write_and_fail)
        more = asyncio.ensure_future(session.jobs.add([new_job()]))
        await asyncio.sleep(0)
        commits.gate.set()
        with pytest.raises(ZeroDivisionError):
            await bad
        for answer in [*await asyncio.gather(*good), await more]:
            assert answer[0].created
        assert len(await session.jobs.find(Query())) == 4
        assert [queue.name for queue in await session.fleet.queues()] == ["mail"]


async def test_a_conflict_in_a_group_does_not_repeat_the_others(tmp_path: Path, commits: Commits) -> None:
    async with session_at(tmp_path) as session:
        holder, other = new_job(key="k", key_ttl=LONG), new_job()
        await session.jobs.add([holder, other])
        before = commits.count
        commits.gate.clear()
        wrong = asyncio.ensure_future(session.jobs.edit(other.id, 1, Edit(key="k")))
        right = asyncio.ensure_future(session.jobs.add([new_job()]))
        await asyncio.sleep(0)
        commits.gate.set()
        with pytest.raises(KeyConflict):
            await wrong
        assert (await right)[0].created
        assert commits.count - before <= 2


async def test_a_heartbeat_goes_before_what_waits(tmp_path: Path, commits: Commits) -> None:
    order: list[str] = []
    async with session_at(tmp_path) as session:
        await register(session)
        await session.jobs.add([new_job()])
        [job] = (await tick(session, 1)).claimed
        commits.gate.clear()
        adds = [asyncio.ensure_future(session.jobs.add([new_job()])) for _ in range(5)]
        beat = asyncio.ensure_future(
            session.jobs.extend("ann", [Extension(job=job.id, token=job.token, lease=LONG)])
        )
        for call in adds:
            call.add_done_callback(lambda _: order.append("add"))
        beat.add_done_callback(lambda _: order.append("beat"))
        await asyncio.sleep(0)
        commits.gate.set()
        await asyncio.gather(beat, *adds)
    # The first add may have been taken before the heartbeat came.
    assert "beat" in order[:2]


async def test_a_caller_that_is_cancelled_while_it_waits_leaves_nothing_or_all(
    tmp_path: Path, commits: Commits
) -> None:
    async with session_at(tmp_path) as session:
        await session.jobs.add([new_job()])
        commits.gate.clear()
        first = asyncio.ensure_future(session.jobs.add([new_job()]))
        cancelled = asyncio.ensure_future(session.jobs.add([new_job(), new_job()]))
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        commits.gate.set()
        await first
        await session.jobs.add([new_job()])
        assert len(await session.jobs.find(Query())) in {3, 5}


async def test_two_event_loops_use_one_file_at_once(tmp_path: Path) -> None:
    added: list[int] = []

    async def add_some() -> None:
        async with session_at(tmp_path) as session:
            answers = await asyncio.gather(*(session.jobs.add([new_job()]) for _ in range(50)))
            added.append(sum(answer[0].created for answer in answers))

    threads = [threading.Thread(target=lambda: asyncio.run(add_some())) for _ in range(2)]
    for thread in threads:
        thread.start()
    await add_some()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert added == [50, 50, 50]
    async with session_at(tmp_path) as session:
        assert [line.count for line in await session.jobs.count()] == [150]


async def test_a_lock_that_is_held_too_long_makes_the_store_unavailable_and_then_available(
    tmp_path: Path,
) -> None:
    async with session_at(tmp_path, "?timeout=0.2") as session:
        with Child("hold_the_lock", url_of(tmp_path)) as child:
            assert child.line() == "held"
            with pytest.raises(StoreUnavailable, match="locked by another process"):
                await session.jobs.add([new_job()])
            child.say("end")
            assert child.line() == "ended"
        assert (await session.jobs.add([new_job()]))[0].created
        assert len(await session.jobs.find(Query())) == 1


async def test_reads_and_idle_ticks_do_not_wait_for_a_writer(tmp_path: Path, commits: Commits) -> None:
    async with session_at(tmp_path) as session:
        await register(session)
        job = new_job(delay=LONG)
        await session.jobs.add([job])
        before = commits.count
        with closing(sqlite3.connect(file_of(tmp_path), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            ticked = await tick(session, 1)
            assert (ticked.registered, ticked.claimed) == (True, [])
            assert ticked.next_due is not None
            assert await session.jobs.get(job.id) is not None
            assert len(await session.jobs.find(Query())) == 1
            assert await session.jobs.expired(10) == []
            assert len(await session.fleet.workers()) == 1
            other.execute("ROLLBACK")
        assert commits.count == before


async def test_a_tick_with_something_due_is_not_idle(tmp_path: Path) -> None:
    async with session_at(tmp_path) as session:
        await register(session)
        job = new_job()
        await session.jobs.add([job])
        assert [claimed.id for claimed in (await tick(session, 1)).claimed] == [job.id]


async def test_closing_waits_for_what_was_given_before(tmp_path: Path) -> None:
    threads = {"holdfast-writer", "holdfast-reader"}
    before = set(threading.enumerate())
    async with session_at(tmp_path) as session:
        adding = asyncio.ensure_future(session.jobs.add([new_job()]))
        await asyncio.sleep(0)
        started = {thread.name for thread in set(threading.enumerate()) - before}
        assert started >= threads
    assert (await adding)[0].created
    left = {thread.name for thread in set(threading.enumerate()) - before}
    assert not left & threads


async def test_a_session_that_was_closed_is_of_no_use_and_starts_nothing(tmp_path: Path) -> None:
    async with session_at(tmp_path) as session:
        await session.jobs.add([new_job()])
    before = set(threading.enumerate())
    for call in (session.jobs.add([new_job()]), session.jobs.find(Query())):
        with pytest.raises(StoreUnavailable, match="the session is closed"):
            await call
    await session.close()
    assert set(threading.enumerate()) <= before
