"""Rows that somebody damaged: they are given out and marked, and never keep others from their work."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.model.lifecycle import DEAD_LETTERED, Ending, State
from holdfast.model.records import Move, Query, Verdict
from tests.sqlite.support import file_of, loosen, new_job, register, session_at, success, tick

DAMAGE = [
    ("tags = 'not json'", "tags"),
    ("tags = '[1, 2]'", "tags"),
    ("task = CAST(x'ff73656e64' AS TEXT)", None),
    (
        "progress_note = CAST(x'ff' AS TEXT), reason = CAST(x'fe' AS TEXT), error = CAST(x'ff' AS TEXT)",
        "error",
    ),
    ("key = CAST(x'80' AS TEXT)", "key"),
    ("timeout = 'soon'", "timeout"),
    ("lease = 1.5", "lease"),
    ("failures = 'many'", "failures"),
    ("created = x'00'", "created"),
]


def damage(folder: Path, change: str, job_id: str) -> None:
    loosen(file_of(folder))
    with closing(sqlite3.connect(file_of(folder))) as connection, connection:
        connection.execute(f"UPDATE holdfast_job SET {change} WHERE id = ?", (job_id,))


@pytest.mark.parametrize(("change", "named"), DAMAGE)
async def test_a_damaged_row_is_marked_and_the_others_are_whole(
    tmp_path: Path, change: str, named: str | None
) -> None:
    async with session_at(tmp_path) as session:
        await register(session)
        good, bad = new_job(tags=("a",)), new_job(tags=("b",))
        await session.jobs.add([good, bad])
        damage(tmp_path, change, bad.id)
        claimed = {job.id: job for job in (await tick(session, 1)).claimed}
        assert claimed[good.id].damaged is None
        assert claimed[good.id].tags == ("a",)
        if named is None:
            # A task that nobody knows is waited for, whatever its name.
            assert bad.id not in claimed
            [found] = [job for job in await session.jobs.find(Query()) if job.id == bad.id]
            assert "task" in (found.damaged or "")
        else:
            assert claimed[bad.id].damaged is not None
            assert named in (claimed[bad.id].damaged or "")


async def test_a_damaged_job_can_be_dead_lettered_and_the_others_completed(tmp_path: Path) -> None:
    async with session_at(tmp_path) as session:
        await register(session)
        good, bad = new_job(), new_job()
        await session.jobs.add([good, bad])
        damage(tmp_path, "timeout = 'soon'", bad.id)
        claimed = {job.id: job for job in (await tick(session, 1)).claimed}
        away = Move(
            job=bad.id,
            token=claimed[bad.id].token,
            path=DEAD_LETTERED,
            outcome=Ending.FAILED,
            reason="undecodable",
        )
        ticked = await tick(session, 2, away, success(claimed[good.id]))
        assert ticked.verdicts == [Verdict.ACCEPTED, Verdict.ACCEPTED]
        stored = {job.id: job.state for job in await session.jobs.find(Query())}
        assert stored == {good.id: State.SUCCESS, bad.id: State.DLQ}


@pytest.mark.parametrize(
    "payload", [b"", b"\x00", b"\xff\xfe", b'{"a":"\\u0000"}', b"a\x00b" * 1_000, b'"\xed\xa0\x80"']
)
async def test_bytes_come_back_as_they_went_in(tmp_path: Path, payload: bytes) -> None:
    async with session_at(tmp_path) as session:
        await register(session)
        plain = new_job(payload=payload)
        rich = new_job(payload=payload, headers=payload, retry=payload, tags=("t",))
        for answer in await session.jobs.add([plain, rich]):
            assert answer.record.payload == payload
        claimed = {job.id: job for job in (await tick(session, 1)).claimed}
        assert [claimed[job.id].payload for job in (plain, rich)] == [payload, payload]
        assert (claimed[rich.id].headers, claimed[rich.id].retry) == (payload, payload)
        await tick(session, 2, *(success(job, result=payload) for job in claimed.values()))
        stored = await session.jobs.states([plain.id, rich.id])
        assert [job and job.result for job in stored] == [payload, payload]
        assert [job and job.damaged for job in stored] == [None, None]


async def test_texts_with_any_character_come_back_as_they_went_in(tmp_path: Path) -> None:
    strange = "a\x00b\x1f\u202e\U0001f600\r\n\"'\\"
    async with session_at(tmp_path) as session:
        await register(session)
        await session.jobs.add([new_job()])
        [job] = (await tick(session, 1)).claimed
        move = Move(
            job=job.id,
            token=job.token,
            path=DEAD_LETTERED,
            outcome=Ending.FAILED,
            reason=strange,
            error=strange,
        )
        await tick(session, 2, move)
        stored = await session.jobs.get(job.id)
        [attempt] = await session.jobs.history(job.id)
    assert stored is not None
    assert (stored.reason, stored.error, attempt.reason, attempt.error) == (strange,) * 4
