"""Producers and workers whose clocks are wrong by an hour: due times and leases stay as they are."""

import asyncio
import uuid
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from tests.chaos import program
from tests.chaos.harness import Site
from tests.chaos.process import Process
from tests.chaos.waiting import until_async

pytestmark = pytest.mark.process

WRONG_CLOCK = str(Path(__file__).with_name("wrong_clock"))
SHIFTS = [("wall", "3600"), ("wall", "-3600"), ("all", "3600")]
DELAY = 1.5
LEASE = 3
"""Kept while a machine stands still for two seconds."""


def wrong(clocks: str, shift: str) -> dict[str, str]:
    return {"PYTHONPATH": WRONG_CLOCK, "CHAOS_CLOCKS": clocks, "CHAOS_SHIFT": shift}


async def test_wrong_clocks_change_neither_due_times_nor_leases(tmp_path: Path) -> None:
    async with Site(tmp_path, lease_seconds=LEASE, heartbeat_seconds=0.5, reclaim_seconds=0.1) as site:
        workers = [site.worker("-c", "3"), *[site.worker("-c", "3", **wrong(*each)) for each in SHIFTS]]
        for worker in workers:
            await worker.starts()
        assert_wrong(workers)
        long = await site.add(*[program.work.call(LEASE + 0.5) for _ in range(11)])
        ids = {each: str(uuid.uuid4()) for each in SHIFTS}
        for each, job_id in ids.items():
            site.start("-m", "tests.chaos.produce", str(DELAY), job_id, **wrong(*each))
        await check_due(site, list(ids.values()))
        await site.finished(*long)
        await site.check(long)
        for job in long:
            assert await site.outcomes(job) == ["success"], (
                "its lease was kept, and nobody thought it expired"
            )
        assert {effect.pid for effect in site.effects("began")} == {worker.pid for worker in workers}


async def test_a_worker_with_a_wrong_clock_takes_over_and_is_taken_over_from_in_time(tmp_path: Path) -> None:
    await asyncio.gather(*(take_over_twice(tmp_path / f"{each[0]}{each[1]}", *each) for each in SHIFTS))


async def take_over_twice(folder: Path, clocks: str, shift: str) -> None:
    async with Site(folder, lease_seconds=1, reclaim_seconds=0.2) as site:
        [job] = await site.add(program.wait_for.call("gate"))
        first = site.worker()
        await site.began(job)
        second = site.worker(**wrong(clocks, shift))
        await second.starts()
        first.kill()
        await site.began(job, count=2, within=site.lease + 5)
        await site.workers(1)
        second.kill()
        await site.began(job, count=3, within=site.lease + 5)
        site.open_gate("gate")
        await site.finished(job)
        await site.check([job])
        attempts = await site.app.history(job.id)
        for attempt in attempts[:-1]:
            assert attempt.started is None or attempt.finished - attempt.started > timedelta(seconds=0.9)


async def test_a_file_that_was_made_with_a_wrong_clock_keeps_delays_and_leases(tmp_path: Path) -> None:
    await asyncio.gather(*(make_with_wrong_clock(tmp_path / shift, shift) for shift in ("3600", "-3600")))


async def make_with_wrong_clock(folder: Path, shift: str) -> None:
    site = Site(folder, lease_seconds=LEASE, heartbeat_seconds=0.5, reclaim_seconds=0.1)
    ids = [str(uuid.uuid4())]
    made = site.start("-m", "tests.chaos.produce", str(DELAY), *ids, **wrong("wall", shift))
    assert await made.ends() == 0
    async with site:
        await site.workers(1)
        [long] = await site.add(program.work.call(LEASE + 0.5))
        await check_due(site, ids, is_true=False)
        await site.finished(long)
        assert await site.outcomes(long) == ["success"]


async def check_due(site: Site, ids: list[str], *, is_true: bool = True) -> None:
    """Jobs that were given a delay start when it is over, by the store's clock, which is the true time."""
    for job_id in ids:
        job = await until_async(partial(site.app.get, job_id), "it is there")
        assert job is not None
        assert job.due - job.created == timedelta(seconds=DELAY)
        if is_true:
            assert abs(datetime.now(UTC) - job.created) < timedelta(seconds=20)
        [done] = await site.finished(job)
        assert done.started is not None
        assert timedelta() <= done.started - job.due < timedelta(seconds=10)


def assert_wrong(workers: list[Process]) -> None:
    """The log lines are stamped by the processes' own clocks."""
    stamps = [
        datetime.fromisoformat(worker.output.partition("time=")[2].partition(" ")[0]) for worker in workers
    ]
    hours = [round((stamp - stamps[0]) / timedelta(hours=1)) for stamp in stamps]
    assert hours == [0, 1, -1, 1]
