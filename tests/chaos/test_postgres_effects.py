"""What commits with the completion happens once for each completed job, whatever is lost or killed."""

import asyncio
import re
from functools import partial
from pathlib import Path

import pytest

from tests.chaos.harness import check_attempts
from tests.chaos.postgres_program import WAYS
from tests.chaos.postgres_site import PostgresSite, seeded
from tests.chaos.waiting import until, until_async
from tests.postgres.proxy import Proxy

pytestmark = pytest.mark.process

APP = "tests.chaos.postgres_program:app"
JOBS = 40
BLOWS = 12
LOSABLE = re.compile(r"^COMMIT|tick_v1|extend_v1|move_in_v1")


@pytest.mark.parametrize("seed", ["one", "two"])
async def test_a_ledger_has_one_row_for_each_job(tmp_path: Path, postgres_database: str, seed: str) -> None:
    draw = seeded(seed)
    settings = {"lease_seconds": 2.0, "reclaim_seconds": 0.1, "lost_limit": 1_000, "poll_seconds": 0.2}
    async with (
        Proxy(postgres_database) as proxy,
        PostgresSite(tmp_path, proxy.url, direct=postgres_database, **settings) as site,  # type: ignore[arg-type]
    ):
        site.query("CREATE TABLE ledger (job text NOT NULL, token bigint NOT NULL)")
        jobs = await site.add(*[way.call() for way in WAYS for _ in range(JOBS)])
        workers = [site.worker("-c", "4", app=APP) for _ in range(2)]
        lost = 0

        def loses(text: str) -> bool:
            nonlocal lost
            is_lost = LOSABLE.search(text) is not None and draw.random() < 0.04
            lost += is_lost
            return is_lost

        proxy.chance = loses
        for blow in range(BLOWS):
            some = len(site.effects("began")) + draw.randrange(1, 8)
            await until(lambda: len(site.effects("began")), "some begin", some.__le__, show=site.printed)
            if blow % 3:
                await asyncio.to_thread(site.kill_backends)
            else:
                busy = site.effects("began")[-1].pid
                next((each for each in workers if each.pid == busy), workers[0]).kill()
                workers = [each if each.code is None else site.worker("-c", "4", app=APP) for each in workers]
        await until_async(
            site.app.stats, "all are done", lambda stats: stats.completed == len(jobs), show=site.printed
        )
        proxy.chance = None
        done = await asyncio.gather(*map(site.stored, jobs))
        histories = await asyncio.gather(*(site.app.history(job.id) for job in jobs))
        rows = await asyncio.to_thread(partial(site.query, "SELECT job, token FROM ledger ORDER BY job"))
        assert rows == sorted((job.id, job.token) for job in done), "one row each, of the recorded attempt"
        for job, attempts in zip(done, histories, strict=True):
            check_attempts(job, attempts)
        outcomes = {attempt.outcome.value for attempts in histories for attempt in attempts}
        assert outcomes & {"lost", "released"}, "some were held by a worker that was killed"
        assert "retry" in outcomes, "some were cut off"
        assert lost, "some answers were lost"
        for worker in workers:
            assert worker.code is None, worker.output
