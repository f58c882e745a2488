"""No space left: the caller is told, nothing is half-written, and it goes on when there is space again."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.model.errors import StoreFull
from holdfast.model.records import Query
from tests.sqlite.support import new_job, register, session_at, success, tick

pytestmark = pytest.mark.process


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
        assert set(ticked.verdicts) == {"accepted"}
        assert (await session.jobs.add([new_job()]))[0].created
        rows = len(await session.jobs.find(Query(limit=1_000)))
    assert rows == len(kept) + 1
