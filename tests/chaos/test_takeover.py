"""A worker that dies or stands still in the middle of a job: another takes over, and only one is recorded."""

import asyncio
import signal
import time
from pathlib import Path

import pytest

from holdfast import Call
from tests.chaos import program
from tests.chaos.harness import Site
from tests.chaos.waiting import until, until_async

pytestmark = pytest.mark.process

SUPERSEDED = ["superseded", "success"]


async def test_another_worker_takes_over_from_one_that_is_killed(tmp_path: Path) -> None:
    async with Site(tmp_path, heartbeat_seconds=0.25) as site:
        workers = {worker.pid: worker for worker in await site.workers(2)}
        [job] = await site.add(program.wait_for.call("gate"))
        first = await site.began(job)
        await until_async(
            lambda: site.stored(job), "the start is recorded", lambda job: job.state == "running"
        )
        killed = time.monotonic()
        workers.pop(first.pid).kill()
        second = await site.began(job, count=2)
        assert time.monotonic() - killed < site.lease + 5
        assert (second.run, second.pid in workers) == (2, True)
        assert second.token > first.token
        site.open_gate("gate")
        [done] = await site.finished(job)
        assert await site.outcomes(job) == ["lost", "success"]
        assert (done.run, done.lost, done.failures) == (2, 1, 0)
        assert await site.app.client.result(job.id) == 2
        await site.check([job])
        survivor = workers[second.pid]
        survivor.signal(signal.SIGTERM)
        assert await survivor.ends() == 0


async def test_a_worker_that_was_frozen_past_its_lease_changes_nothing_and_works_on(tmp_path: Path) -> None:
    await asyncio.gather(
        thaw_after_take_over(tmp_path / "async", program.wait_for.call("gate")),
        thaw_after_take_over(tmp_path / "thread", program.wait_in_thread.call("gate")),
        thaw_beside_the_rival(tmp_path / "rival"),
    )


async def thaw_after_take_over(folder: Path, call: Call) -> None:
    async with Site(folder, heartbeat_seconds=0.25, reclaim_seconds=0.5) as site:
        [frozen] = await site.workers(1)
        [job] = await site.add(call)
        first = await site.began(job)
        await site.freeze(frozen)
        rival = site.worker()
        second = await site.began(job, count=2)
        assert (second.pid, second.run) == (rival.pid, 2)
        assert second.token > first.token
        site.open_gate("gate")
        done = await site.finished(job)
        rival.kill()
        frozen.signal(signal.SIGCONT)
        await until_async(lambda: site.outcomes(job), "the late report", SUPERSEDED.__eq__)
        assert await site.finished(job) == done, "nothing has changed"
        await site.check([job])
        more = await site.add(*[program.work.call() for _ in range(10)])
        await site.finished(*more)
        assert {effect.pid for each in more for effect in site.effects("ended", each)} == {frozen.pid}
        await site.check(more)


async def thaw_beside_the_rival(folder: Path) -> None:
    async with Site(folder, heartbeat_seconds=0.25, reclaim_seconds=0.5) as site:
        [frozen] = await site.workers(1)
        [job] = await site.add(program.wait_for_own_gate.call())
        await site.began(job)
        await site.freeze(frozen)
        site.worker()
        await site.began(job, count=2)
        site.open_gate("gate-1")
        frozen.signal(signal.SIGCONT)
        await until_async(lambda: site.outcomes(job), "the late success", ["superseded"].__eq__)
        assert (await site.stored(job)).state in {"claimed", "running"}, "it is the rival's"
        site.open_gate("gate-2")
        await site.finished(job)
        assert await site.app.client.result(job.id) == 2
        await site.check([job])


async def test_a_handler_that_blocks_event_loop_or_interpreter_keeps_its_lease(tmp_path: Path) -> None:
    async with Site(tmp_path, lease_seconds=3, heartbeat_seconds=0.5, reclaim_seconds=0.2) as site:
        await site.workers(3, "-c", "1")
        jobs = await site.add(program.block_the_loop.call(4.0), program.gil_in_process.call(4.0))
        await site.finished(*jobs)
        for job in jobs:
            assert await site.outcomes(job) == ["success"]
            assert len(site.effects("began", job)) == 1
        await site.check(jobs)


async def test_a_thread_that_never_yields_the_interpreter_is_recorded_once(tmp_path: Path) -> None:
    await asyncio.gather(hold_beside_a_rival(tmp_path / "two"), hold_alone(tmp_path / "one"))


async def hold_beside_a_rival(folder: Path) -> None:
    async with Site(folder, lease_seconds=1, reclaim_seconds=0.2) as site:
        await site.workers(2)
        [job] = await site.add(program.gil_in_thread.call(4.0))
        await site.finished(job)
        await until(lambda: len(site.effects("ended", job)), "the late end", (2).__eq__)
        await until_async(lambda: site.outcomes(job), "the late report", SUPERSEDED.__eq__)
        await site.check([job])


async def hold_alone(folder: Path) -> None:
    async with Site(folder, lease_seconds=1) as site:
        await site.workers(1)
        [job] = await site.add(program.gil_in_thread.call(2.5))
        await site.finished(job)
        [outcomes] = await site.check([job])
        assert len(outcomes) <= 2, "it is not run again and again"


async def test_a_handler_that_swallows_cancellation_costs_its_slot_and_nothing_else(tmp_path: Path) -> None:
    async with Site(
        tmp_path, lease_seconds=60, heartbeat_seconds=0.25, kill_seconds=0.2, concurrency=2
    ) as site:
        [worker] = await site.workers(1)
        [job] = await site.add(program.swallow.call("gate"))
        await site.began(job)
        assert await site.app.cancel(job.id) == "asked"
        await worker.says("attempt does not stop")
        [other] = await site.add(program.work.call())
        await site.finished(other)
        site.open_gate("gate")
        await site.finished(job)
        assert await site.outcomes(job) == ["success"], "a success that arrives wins over being asked to stop"
        assert len(site.effects("swallowed", job)) == 1
        await site.check([job, other])


async def test_a_child_process_ends_with_its_worker(tmp_path: Path) -> None:
    async with Site(tmp_path, lease_seconds=1, reclaim_seconds=0.2) as site:
        [worker] = await site.workers(1)
        [job] = await site.add(program.wait_in_process.call("gate"))
        first = await site.began(job)
        assert first.pid != worker.pid
        worker.kill()
        await until(lambda: Path(f"/proc/{first.pid}").exists(), "the child ends", lambda exists: not exists)
        site.open_gate("gate")
        await site.workers(1)
        await site.finished(job)
        assert len(site.effects("ended", job)) == 1
        await site.check([job])
