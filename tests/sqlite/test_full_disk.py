"""No space left: the caller is told, nothing is half-written, and it goes on when there is space again."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.model.errors import StoreFull
from holdfast.model.records import Query, Verdict
from holdfast.stores.sqlite.statements import Statement
from holdfast.stores.sqlite.store import SqliteSession
from tests.sqlite.support import new_job, register, session_at, success, tick


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("needs root to mount a small file system")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("cannot mount here")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


@pytest.mark.process
async def test_a_full_disk_is_told_and_survived(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    async with session_at(small_disk) as session:
        await register(session)
        kept = [new_job() for _ in range(20)]
        await session.jobs.add(kept)
        claimed = (await tick(session, 1)).claimed
        with ballast.open("wb") as file:
            file.write(b"x" * 400_000)
        with pytest.raises(StoreFull, match="no space left"):
            await session.jobs.add([new_job(payload=b"y" * 10_000) for _ in range(100)])
        for _ in range(200):
            try:
                [added] = await session.jobs.add([new_job(payload=b"z" * 5_000)])
            except StoreFull:
                break
            kept.append(new_job(id=added.record.id))
        else:
            pytest.fail("the disk never filled up")
        assert {job.id for job in await session.jobs.find(Query(limit=1_000))} == {job.id for job in kept}
        ballast.unlink()
        ticked = await tick(session, 2, *(success(job) for job in claimed))
        assert set(ticked.verdicts) == {Verdict.ACCEPTED}
        assert (await session.jobs.add([new_job()]))[0].created
        rows = len(await session.jobs.find(Query(limit=1_000)))
    assert rows == len(kept) + 1


async def test_a_file_that_may_not_grow_is_told_and_survived(tmp_path: Path) -> None:
    async with session_at(tmp_path) as session:
        await register(session)
        kept = [new_job() for _ in range(20)]
        await session.jobs.add(kept)
        claimed = (await tick(session, 1)).claimed
        await limit_pages(session, 40)
        big = [new_job(payload=b"y" * 10_000) for _ in range(100)]
        adds = [session.jobs.add(big), session.jobs.add([new_job(payload=b"z" * 1_000_000)])]
        for outcome in await asyncio.gather(*adds, return_exceptions=True):
            assert isinstance(outcome, StoreFull)
        assert {job.id for job in await session.jobs.find(Query(limit=1_000))} == {job.id for job in kept}
        await limit_pages(session, 1_000_000)
        ticked = await tick(session, 2, *(success(job) for job in claimed))
        assert set(ticked.verdicts) == {Verdict.ACCEPTED}
        assert all(added.created for added in await session.jobs.add(big))


async def limit_pages(session: SqliteSession, pages: int) -> None:
    assert session._database is not None
    limit = Statement(f"PRAGMA max_page_count = {pages}", ())
    await session._database.write(1, lambda tx: tx.run_statement(limit, {}).fetchall())
