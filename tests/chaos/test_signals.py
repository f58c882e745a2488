"""Stopping by signals through the real command line, alone and with `--processes`."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from tests.chaos import program
from tests.chaos.harness import Site
from tests.chaos.waiting import until

pytestmark = pytest.mark.process

STARTED = 'event="worker started"'
CODES = {signal.SIGTERM: 143, signal.SIGINT: 130}


async def test_the_first_signal_lets_running_jobs_finish_and_gives_back_the_rest(tmp_path: Path) -> None:
    async with Site(tmp_path, lease_seconds=60) as site:
        [worker] = await site.workers(1, "-c", "2")
        running = await site.add(program.wait_for.call("gate"), program.wait_in_thread.call("gate"))
        for job in running:
            await site.began(job)
        [late] = await site.add(program.work.call())
        worker.signal(signal.SIGTERM)
        await worker.says("event=signal")
        site.open_gate("gate")
        assert await worker.ends() == 0
        await site.check(running)
        waiting = await site.stored(late)
        assert (waiting.state, waiting.run) == ("scheduled", 0), "nothing more was claimed"
        assert await site.app.workers() == []


async def test_the_second_signal_cancels_and_releases_at_once(tmp_path: Path) -> None:
    await asyncio.gather(*(force(tmp_path / number.name, number) for number in CODES))


async def force(folder: Path, number: signal.Signals) -> None:
    async with Site(folder, lease_seconds=60, kill_seconds=1) as site:
        [worker] = await site.workers(1)
        [job] = await site.add(program.wait_for.call("gate"))
        await site.began(job)
        worker.signal(number)
        await worker.says("event=signal")
        worker.signal(number)
        assert await worker.ends() == CODES[number]
        assert await site.outcomes(job) == ["released"]
        released = await site.stored(job)
        assert (released.state, released.failures, released.lost) == ("scheduled", 0, 0)
        assert released.due == job.due
        site.open_gate("gate")
        assert await site.worker("--drain").ends() == 0
        await site.check([job])


async def test_a_handler_that_does_not_stop_is_left_behind_and_its_job_taken_over(tmp_path: Path) -> None:
    async with Site(
        tmp_path, lease_seconds=1, kill_seconds=0.3, grace_seconds=0.1, reclaim_seconds=0.2
    ) as site:
        [worker] = await site.workers(1)
        jobs = await site.add(program.swallow.call("gate"), program.wait_in_thread.call("gate"))
        for job in jobs:
            await site.began(job)
        worker.signal(signal.SIGTERM)
        assert await worker.ends() == 143, "its code still ran when the process ended"
        site.open_gate("gate")
        site.worker()
        await site.finished(*jobs)
        for job in jobs:
            assert await site.outcomes(job) == ["lost", "success"]
        await site.check(jobs)


async def test_a_supervisor_replaces_what_dies_and_ends_all_when_told(tmp_path: Path) -> None:
    async with Site(tmp_path, lease_seconds=3, reclaim_seconds=0.2) as site:
        supervisor = site.worker("--processes", "2")
        await supervisor.says(STARTED, times=2)
        [job] = await site.add(program.wait_for.call("gate"))
        first = await site.began(job)
        os.kill(first.pid, signal.SIGKILL)
        await site.began(job, count=2)
        await supervisor.says(STARTED, times=3)
        assert len(supervisor.live_children()) == 2
        supervisor.signal(signal.SIGTERM)
        await supervisor.says("event=signal", times=2)
        site.open_gate("gate")
        assert await supervisor.ends() == 0
        assert supervisor.live_children() == []
        assert await site.outcomes(job) == ["lost", "success"]
        await site.check([job])


async def test_workers_drain_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    async with Site(tmp_path, lease_seconds=60) as site:
        supervisor = site.worker("--processes", "2")
        await supervisor.says(STARTED, times=2)
        [job] = await site.add(program.wait_for.call("gate"))
        await site.began(job)
        supervisor.kill()
        await supervisor.says("event=signal", times=2)
        site.open_gate("gate")
        await until(supervisor.live_children, "both end", [].__eq__)
        assert await site.outcomes(job) == ["success"]
        await site.check([job])
