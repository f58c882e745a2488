"""A worker of several partitions ends as any other does: what runs may finish, or is given back."""

import signal
from pathlib import Path

import pytest

from tests.chaos import program
from tests.partitioned.test_outages import PartitionedSite

pytestmark = pytest.mark.process


def files(folder: Path) -> dict[str, str]:
    return {name: f"sqlite:///{folder / name}.db" for name in "abc"}


async def test_the_first_signal_lets_jobs_of_all_partitions_finish(tmp_path: Path) -> None:
    async with PartitionedSite(tmp_path, files(tmp_path)) as site:
        [worker] = await site.workers(1)
        jobs = await site.add(*(program.wait_for.using(queue=f"in-{name}").call("gate") for name in "abc"))
        for job in jobs:
            await site.began(job)
        worker.signal(signal.SIGTERM)
        await worker.says("event=signal")
        [late] = await site.add(program.work.using(queue="in-a").call())
        site.open_gate("gate")
        assert await worker.ends() == 0
        assert [(await site.stored(job)).state for job in jobs] == ["success"] * 3
        assert (await site.stored(late)).state == "scheduled"
        assert await site.app.workers() == []


async def test_the_second_signal_gives_back_what_runs(tmp_path: Path) -> None:
    async with PartitionedSite(tmp_path, files(tmp_path)) as site:
        [worker] = await site.workers(1)
        jobs = await site.add(*(program.wait_for.using(queue=f"in-{name}").call("gate") for name in "ab"))
        for job in jobs:
            await site.began(job)
        worker.signal(signal.SIGTERM)
        await worker.says("event=signal")
        worker.signal(signal.SIGTERM)
        assert await worker.ends() == 143
        assert [(await site.stored(job)).state for job in jobs] == ["scheduled"] * 2
        assert [await site.outcomes(job) for job in jobs] == [["released"]] * 2


async def test_a_worker_whose_partitions_are_all_away_can_be_stopped(tmp_path: Path) -> None:
    urls = dict.fromkeys("ab", "redis://127.0.0.1:1/0")
    site = PartitionedSite(tmp_path, urls)
    worker = site.worker()
    try:
        await worker.says("store unreachable")
        worker.signal(signal.SIGTERM)
        assert await worker.ends() == 0
    finally:
        worker.kill()


async def test_a_worker_that_drains_ends_by_itself(tmp_path: Path) -> None:
    async with PartitionedSite(tmp_path, files(tmp_path)) as site:
        jobs = await site.add(
            *(program.work.using(queue=f"in-{name}").call() for name in "abc" for _ in range(9))
        )
        worker = site.worker("--drain")
        assert await worker.ends() == 0
        await site.check(jobs)
