"""Several processes on one file."""

import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from holdfast.model.lifecycle import State
from holdfast.model.records import Query
from tests.sqlite.support import Child, file_of, new_job, register, session_at, success, tick, url_of

pytestmark = pytest.mark.process


def integrity(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        return str(connection.execute("PRAGMA integrity_check").fetchone()[0])


async def test_eight_processes_add_and_work_and_every_job_is_completed_once(tmp_path: Path) -> None:
    with ExitStack() as stack:
        children = [stack.enter_context(Child("add_and_work", url_of(tmp_path), n, 50)) for n in range(8)]
        assert [child.line() for child in children] == ["ready"] * 8
        for child in children:
            child.say("go")
        lines = [line for child in children for line in child.rest()]
    accepted = [line.split()[1] for line in lines]
    assert {line.split()[0] for line in lines} == {"accepted"}
    assert len(accepted) == len(set(accepted)) == 400
    assert integrity(file_of(tmp_path)) == "ok"
    async with session_at(tmp_path) as session:
        [line] = await session.jobs.count()
        assert (line.state, line.count) == (State.SUCCESS, 400)
        assert {job.id for job in await session.jobs.find(Query(limit=1_000))} == set(accepted)
        assert [len(await session.jobs.history(job_id)) for job_id in accepted[:20]] == [1] * 20


async def test_a_killed_process_leaves_exactly_what_was_acknowledged_or_one_more(tmp_path: Path) -> None:
    with Child("add_until_killed", url_of(tmp_path)) as child:
        told = [child.line() for _ in range(40)]
        child.process.kill()
        told += [line.strip() for line in child.process.stdout or []]
    assert integrity(file_of(tmp_path)) == "ok"
    async with session_at(tmp_path) as session:
        kept = {job.id: job.payload for job in await session.jobs.find(Query(limit=100_000))}
    # What was said was stored. The one that was being added may be there too, whole, or not at all.
    assert set(told) <= kept.keys()
    assert len(kept) - len(told) <= 1
    assert set(kept.values()) == {b"x" * 2_000}


async def test_the_lock_of_a_killed_process_is_free_at_once(tmp_path: Path) -> None:
    async with session_at(tmp_path) as session:
        with Child("hold_the_lock", url_of(tmp_path)) as child:
            assert child.line() == "held"
            child.process.kill()
            child.process.wait()
            await register(session)
            await session.jobs.add([new_job()])
            [job] = (await tick(session, 1)).claimed
            await tick(session, 2, success(job))
            stored = await session.jobs.get(job.id)
    assert stored is not None
    assert stored.state is State.SUCCESS
