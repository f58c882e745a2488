"""Worker processes on Redis that are killed, frozen and ended: every job is recorded once."""

import random
import signal
from pathlib import Path

import pytest

from holdfast.model.lifecycle import State
from tests.chaos import program
from tests.chaos.redis_site import RedisSite
from tests.chaos.waiting import until, until_async
from tests.redis.soundness import check_sound

pytestmark = pytest.mark.process

JOBS = 1_000
PROCESSES = 4


async def test_four_processes_two_of_them_killed_record_every_job_once(
    tmp_path: Path, redis_url: str
) -> None:
    draw = random.Random(8)
    async with RedisSite(tmp_path, redis_url, reclaim_seconds=0.5) as site:
        workers = await site.workers(PROCESSES)
        jobs = await site.add(*[program.work.call(draw.uniform(0, 0.02)) for _ in range(JOBS)])
        for victim, part in ((workers[0], JOBS // 5), (workers[1], 2 * JOBS // 5)):
            await until(lambda: len(site.effects("ended")), "a part is done", part.__le__)
            victim.kill()
        await until_async(
            site.app.stats, "all are done", lambda stats: stats.completed == JOBS, show=site.printed
        )
        outcomes = await site.check(jobs)
        assert ["lost", "success"] in outcomes, "the killed ones held something"
        assert {worker.code for worker in workers[2:]} == {None}
        assert check_sound(redis_url) == {State.SUCCESS: JOBS}


async def test_a_worker_that_is_frozen_past_its_lease_is_refused_and_goes_on(
    tmp_path: Path, redis_url: str
) -> None:
    async with RedisSite(tmp_path, redis_url, lease_seconds=1, reclaim_seconds=0.2) as site:
        [frozen] = await site.workers(1)
        [job] = await site.add(program.wait_for.call("gate"))
        first = await site.began(job)
        frozen.signal(signal.SIGSTOP)
        rival = site.worker()
        second = await site.began(job, count=2)
        assert (second.pid, second.run) == (rival.pid, 2)
        assert second.token > first.token
        site.open_gate("gate")
        done = await site.finished(job)
        rival.kill()
        frozen.signal(signal.SIGCONT)
        await until_async(lambda: site.outcomes(job), "the late report", ["superseded", "success"].__eq__)
        assert await site.finished(job) == done, "nothing has changed"
        more = await site.add(*[program.work.call() for _ in range(10)])
        await site.finished(*more)
        await site.check([job, *more])
        assert check_sound(redis_url) == {State.SUCCESS: 11}


async def test_signals_end_a_worker_with_its_jobs_finished_or_given_back(
    tmp_path: Path, redis_url: str
) -> None:
    async with RedisSite(tmp_path, redis_url, lease_seconds=60, kill_seconds=1) as site:
        first, second = await site.workers(2, "-c", "1")
        jobs = await site.add(program.wait_for.call("gate"), program.wait_for.call("gate"))
        begun = {(await site.began(job)).pid: job for job in jobs}
        first.signal(signal.SIGTERM)
        await first.says("event=signal")
        first.signal(signal.SIGTERM)
        assert await first.ends() == 143
        given_back = begun[first.pid]
        assert await site.outcomes(given_back) == ["released"]
        second.signal(signal.SIGTERM)
        await second.says("event=signal")
        site.open_gate("gate")
        assert await second.ends() == 0
        assert await site.app.workers() == []
        assert check_sound(redis_url) == {State.SUCCESS: 1, State.SCHEDULED: 1}
        assert await site.worker("--drain").ends() == 0
        await site.check(jobs)
