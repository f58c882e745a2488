"""Handlers that fork: their worker hears only its own signals, and no copy goes on in its name."""

from pathlib import Path

import pytest

from tests.chaos import program
from tests.chaos.harness import Site

pytestmark = pytest.mark.process


async def test_a_signal_to_a_fork_of_a_handler_does_not_reach_the_worker(tmp_path: Path) -> None:
    async with Site(tmp_path, lease_seconds=60) as site:
        [worker] = await site.workers(1)
        jobs = await site.add(program.end_a_fork.call(), program.use_a_pool.call())
        await site.finished(*jobs)
        assert await site.app.client.result(jobs[0].id) == 7
        assert await site.app.client.result(jobs[1].id) == 55
        more = await site.add(program.work.call())
        await site.finished(*more)
        await site.check([*jobs, *more])
        assert "event=signal" not in worker.output


async def test_a_fork_that_returns_from_its_handler_is_no_second_worker(tmp_path: Path) -> None:
    async with Site(tmp_path, lease_seconds=60) as site:
        await site.workers(1, "-c", "3")
        ways = (
            program.return_twice_from_loop,
            program.return_twice_from_thread,
            program.return_twice_from_child,
        )
        for way in ways:
            jobs = await site.add(way.call())
            await site.finished(*jobs)
            jobs += await site.add(*[program.work.call() for _ in range(20)], program.work_in_process.call())
            await site.finished(*jobs)
            await site.check(jobs)
            for job in jobs:
                assert len(site.effects("ended", job)) == 1
        assert len({effect.pid for effect in site.effects("ended")}) == 2, "the worker and its child"


async def test_a_child_that_dies_is_noticed_though_what_it_started_lives_on(tmp_path: Path) -> None:
    async with Site(tmp_path, lease_seconds=60) as site:
        [worker] = await site.workers(1)
        try:
            [job] = await site.add(program.leave_an_orphan.call("gate"))
            [dead] = await site.finished(job)
        finally:
            site.open_gate("gate")
        assert (dead.state, dead.reason) == ("dlq", "the child process ended with exit code 9")
        assert worker.code is None
