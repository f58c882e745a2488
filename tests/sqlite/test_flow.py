"""Flow control in files: several processes, transactions of users, and what idle workers write."""

import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.flow import AFTER, LimitRecord, NewFlow, Scope, Usage, gate
from holdfast.model.lifecycle import State
from holdfast.model.records import JobRecord, NewJob, Verdict
from holdfast.store import Session
from holdfast.stores.sqlite import ranking
from holdfast.testing.clock import ManualClock
from tests.sqlite.support import (
    QUEUE,
    TASK,
    Child,
    asking,
    file_of,
    loosen,
    new_job,
    register,
    session_at,
    store_at,
    success,
    tick,
    url_of,
)

JOBS = 90


def keyed(key: str = "tenant", **fields: Any) -> NewJob:
    return new_job(flow=NewFlow(limit_key=key), **fields)


async def put(session: Session, scope: Scope, name: str, **fields: Any) -> None:
    await session.flow.put([LimitRecord(scope=scope, name=name, **fields)])


async def added(session: Session, *jobs: NewJob) -> list[JobRecord]:
    return [answer.record for answer in await session.jobs.add(jobs)]


@pytest.mark.process
async def test_processes_together_never_hold_one_more_than_a_limit(tmp_path: Path) -> None:
    async with session_at(tmp_path) as session:
        await put(session, Scope.QUEUE, QUEUE, concurrency=7)
        await put(session, Scope.EACH_KEY, TASK, concurrency=2)
        await added(session, *(keyed(f"key-{number % 9}") for number in range(JOBS)))
        with ExitStack() as stack:
            parts = [
                stack.enter_context(Child("work_within_limits", url_of(tmp_path), number))
                for number in range(3)
            ]
            for child in parts:
                assert child.line() == "ready"
            for child in parts:
                child.say("go")
            lines = [line for child in parts for line in child.rest()]
        assert {line for line in lines if line.startswith("more")} == set()
        done = [line.split()[1] for line in lines if line.startswith("done")]
        assert len(done) == len(set(done)) == JOBS
        [line] = await session.jobs.count()
        assert (line.state, line.count) == (State.SUCCESS, JOBS)


async def test_a_completion_in_a_users_transaction_frees_what_waited(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    async with session_at(tmp_path) as session:
        await register(session)
        await put(session, Scope.EACH_KEY, TASK, concurrency=1)
        first, second = await added(session, keyed(), keyed())
        [waiting] = await added(session, new_job(flow=NewFlow(after=(first.id,))))
        [job] = (await tick(session, 1)).claimed
        for commits in (False, True):
            with closing(sqlite3.connect(file_of(tmp_path), isolation_level=None)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                verdict = store.transactions.move_in_sync(connection, "default", "ann", success(job))
                assert verdict is Verdict.ACCEPTED
                connection.execute("COMMIT" if commits else "ROLLBACK")
            claimed = (await tick(session, 2 + commits)).claimed
            assert [each.id for each in claimed] == ([second.id, waiting.id] if commits else [])


async def test_jobs_of_a_users_transaction_wait_as_others_do(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    async with session_at(tmp_path) as session:
        await register(session)
        first = new_job()
        rest = [new_job(flow=NewFlow(after=(first.id,))), new_job(flow=NewFlow(sequence="s"))]
        async with store.transactions.begin() as connection:
            answers = await store.transactions.add_in(connection, "default", [first, *rest])
        assert [answer.record.flow and answer.record.flow.parked for answer in answers] == [None, AFTER, None]
        claimed = (await tick(session, 1)).claimed
        assert [job.id for job in claimed] == [first.id, rest[1].id]


async def test_a_limit_that_another_process_puts_holds_at_once(tmp_path: Path) -> None:
    async with session_at(tmp_path) as session:
        await register(session)
        await added(session, *(new_job() for _ in range(6)))
        claimed = (await tick(session, 1, limit=2)).claimed
        with Child("put_a_limit", url_of(tmp_path), QUEUE, 3) as child:
            assert child.rest() == ["put"]
        assert len((await tick(session, 2)).claimed) == 1
        assert len((await tick(session, 3, *map(success, claimed))).claimed) == 2
        assert (await tick(session, 4)).claimed == []


async def test_an_idle_worker_looks_again_only_when_a_rate_lets_one_through(tmp_path: Path) -> None:
    clock = ManualClock()
    async with session_at(tmp_path, clock=clock) as session:
        await register(session)
        await put(session, Scope.QUEUE, QUEUE, rate=1, period=5_000_000)
        await added(session, *(new_job() for _ in range(3)))
        first = await tick(session, 1)
        assert (len(first.claimed), first.next_due) == (1, 5_000_000)
        with closing(Watcher(tmp_path)) as watcher:
            clock.advance(4)
            assert (await tick(session, 2)).next_due == 1_000_000
            assert not watcher.saw_writes()
        clock.advance(1)
        assert len((await tick(session, 3)).claimed) == 1


class Watcher:
    """Tells whether anybody has written since it was last asked."""

    def __init__(self, folder: Path) -> None:
        self._connection = sqlite3.connect(file_of(folder))
        self._version = self._read()

    def _read(self) -> object:
        return self._connection.execute("PRAGMA data_version").fetchone()

    def saw_writes(self) -> bool:
        before, self._version = self._version, self._read()
        return before != self._version

    def close(self) -> None:
        self._connection.close()


async def test_what_is_held_back_is_parked_so_that_nobody_looks_again(tmp_path: Path) -> None:
    async with session_at(tmp_path) as session:
        await register(session)
        await put(session, Scope.TASK, TASK, paused=True)
        await added(session, *(new_job() for _ in range(5)))
        assert (await tick(session, 1)).paused_tasks == {TASK}
        assert await session.flow.usage([gate(Scope.TASK, TASK)]) == [Usage(running=0, parked=5)]
        with closing(Watcher(tmp_path)) as watcher:
            told = await tick(session, 2)
            assert (told.paused_tasks, told.next_due) == (frozenset({TASK}), None)
            assert not watcher.saw_writes()
            await session.flow.remove(Scope.TASK, TASK)
            assert watcher.saw_writes()


async def test_a_namespace_does_not_see_the_limits_of_another(tmp_path: Path) -> None:
    async with session_at(tmp_path) as one, session_at(tmp_path, namespace="other") as other:
        await put(one, Scope.QUEUE, QUEUE, concurrency=0)
        for session in (one, other):
            await register(session)
            await added(session, new_job(), new_job())
        assert (await tick(one, 1)).claimed == []
        assert len((await tick(other, 1)).claimed) == 2


async def test_many_parked_jobs_are_worked_off_in_order(tmp_path: Path) -> None:
    async with session_at(tmp_path) as session:
        await register(session)
        await put(session, Scope.EACH_KEY, TASK, concurrency=1)
        await put(session, Scope.QUEUE, QUEUE, concurrency=5)
        jobs = await added(session, *(keyed(f"key-{number // 500}") for number in range(1_500)))
        done: list[str] = []
        held: list[JobRecord] = []
        for seq in range(1, 1_500):
            ticked = await session.jobs.tick(asking(seq, *map(success, held), limit=100))
            done += [job.id for job in held]
            held = ticked.claimed
            assert len({job.flow.limit_key for job in held if job.flow}) == len(held)
            if not held and ticked.next_due is None:
                break
        assert sorted(done) == [job.id for job in jobs]
        for key in range(3):
            of_key = {job.id for job in jobs[key * 500 : key * 500 + 500]}
            assert [job_id for job_id in done if job_id in of_key] == sorted(of_key)


async def test_keys_that_are_behind_are_forgotten_where_there_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, "MANY", 3)
    clock = ManualClock()
    async with session_at(tmp_path, clock=clock) as session:
        await register(session)
        await added(session, *(new_job(flow=NewFlow(fair_key=f"key-{number}")) for number in range(5)))
        assert len((await tick(session, 1)).claimed) == 5
        await added(session, new_job(flow=NewFlow(fair_key="late"), delay=0))
        clock.advance(60)
        await session.jobs.prune(0, 100)
        with closing(sqlite3.connect(file_of(tmp_path))) as connection:
            kept = connection.execute("SELECT key FROM holdfast_fair ORDER BY key").fetchall()
    assert kept == [("late",)]


async def test_a_damaged_limit_key_holds_up_nobody(tmp_path: Path) -> None:
    async with session_at(tmp_path) as session:
        await register(session)
        await put(session, Scope.EACH_KEY, TASK, concurrency=1)
        damaged, good = await added(session, keyed("a"), keyed("b"))
        loosen(file_of(tmp_path))
        with closing(sqlite3.connect(file_of(tmp_path))) as connection, connection:
            connection.execute("UPDATE holdfast_job SET limit_key = x'00ff' WHERE id = ?", (damaged.id,))
        claimed = {job.id: job for job in (await tick(session, 1)).claimed}
        assert claimed.keys() == {damaged.id, good.id}
        assert "limit_key" in (claimed[damaged.id].damaged or "")
        assert claimed[good.id].damaged is None
