"""Many processes on one file at once."""

import random
import signal
from collections import Counter, defaultdict
from functools import partial
from pathlib import Path

import pytest

from tests.chaos import program
from tests.chaos.harness import Site
from tests.chaos.process import Process
from tests.chaos.waiting import until, until_async

pytestmark = pytest.mark.process

JOBS = 2_000
PROCESSES = 8
KEYS = 100


def kill_a_holder(site: Site, workers: list[Process]) -> Process | None:
    """Kills the first that holds a job. It stands still meanwhile, so that what is seen stays true."""
    for worker in workers:
        worker.signal(signal.SIGSTOP)
        [(held,)] = site.query("SELECT count(*) FROM holdfast_job WHERE worker LIKE ?", f"%-{worker.pid}-%")
        if held:
            worker.kill()
            return worker
        worker.signal(signal.SIGCONT)
    return None


async def test_eight_processes_two_of_them_killed_record_every_job_once(tmp_path: Path) -> None:
    draw = random.Random(8)
    async with Site(tmp_path) as site:
        workers = await site.workers(PROCESSES)
        jobs = await site.add(*[program.work.call(draw.uniform(0, 0.02)) for _ in range(JOBS)])
        killed = set[Process | None]()
        for part in (JOBS // 5, 2 * JOBS // 5):
            await until(lambda: len(site.effects("ended")), "a part is done", part.__le__)
            left = [worker for worker in workers if worker not in killed]
            killed.add(await until(partial(kill_a_holder, site, left), "one of them holds something"))
        await until_async(
            site.app.stats,
            "all are done",
            lambda stats: stats.completed == JOBS,
            within=40,
            show=site.printed,
        )
        outcomes = await site.check(jobs)
        assert ["lost", "success"] in outcomes, "the killed ones held something"
        assert {worker.code for worker in workers if worker not in killed} == {None}
        assert len({effect.pid for effect in site.effects("ended")}) == PROCESSES
        assert site.query("PRAGMA integrity_check") == [("ok",)]
        assert site.query("SELECT count(*), count(DISTINCT id) FROM holdfast_done") == [(JOBS, JOBS)]


async def test_one_job_for_each_key_whoever_enqueues_it(tmp_path: Path) -> None:
    async with Site(tmp_path) as site:
        producers = [site.start("-m", "tests.chaos.keyed", str(KEYS), "go") for _ in range(PROCESSES)]
        for producer in producers:
            await producer.says("ready")
        site.open_gate("go")
        for producer in producers:
            assert await producer.ends() == 0
        answers: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for line in site.printed().splitlines():
            if line.startswith("key "):
                _, key, job_id = line.split()
                answers[key][job_id] += 1
        assert len(answers) == KEYS
        assert all(list(ids.values()) == [PROCESSES] for ids in answers.values()), "all got the same job"
        stored = await site.app.find(limit=1000)
        assert {job.id for job in stored} == {job_id for ids in answers.values() for job_id in ids}
        site.worker("--drain")
        await site.finished(*stored)
        await site.check(stored)
        assert len(site.effects("began")) == KEYS
