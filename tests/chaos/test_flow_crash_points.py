"""Calls on which other jobs wait, with their process killed before or after the commit, or repeating them."""

import asyncio
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, Job
from holdfast.engine.worker import Worker
from holdfast.model.overrides import Overrides
from tests.chaos import program
from tests.chaos.crashing import job_id, namespace
from tests.chaos.failpoint import POINTS
from tests.chaos.flow_crashing import FLOW_CALLS, LINE, other
from tests.chaos.harness import Site, check_attempts
from tests.chaos.postgres_site import PostgresSite
from tests.chaos.redis_site import RedisSite
from tests.chaos.waiting import until_async

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

SETTINGS = Overrides(
    lease_seconds=2.0,
    poll_seconds=0.05,
    reclaim_seconds=0.1,
    kill_seconds=1.0,
    leader_candidate=False,  # a candidate writes too, and the commit that counts would not be the next one
)
AT_ONCE = 6


@pytest.fixture(autouse=True)
def _effects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAOS_EFFECTS", str(tmp_path / "effects"))


async def test_on_sqlite(tmp_path: Path) -> None:
    async with Site(tmp_path, **SETTINGS) as site:
        await crash_everywhere(site, "sqlite")


async def test_on_postgres(tmp_path: Path, postgres_database: str) -> None:
    async with PostgresSite(tmp_path, postgres_database, **SETTINGS) as site:
        await crash_everywhere(site, "postgres")


async def test_on_redis(tmp_path: Path, redis_url: str) -> None:
    async with RedisSite(tmp_path, redis_url, **SETTINGS) as site:
        await crash_everywhere(site, "redis")


async def crash_everywhere(site: Site, store: str) -> None:
    points = [(call, point) for call in FLOW_CALLS for point in POINTS]
    crashing = site.start("-m", "tests.chaos.flow_crashing", store, *FLOW_CALLS)
    assert await crashing.ends(within=60) == 0
    # Anywhere in a line: one that was killed may have left a line of its log unfinished before it.
    said = re.findall(r"crashed (\S+) (\S+) (-?\d+)$", crashing.output, re.MULTILINE)
    ends = {(call, point): int(number) for call, point, number in said}
    assert ends == dict.fromkeys(points, signal.SIGKILL), crashing.output
    for some in range(0, len(points), AT_ONCE):
        await asyncio.gather(*(recover(site, *each) for each in points[some : some + AT_ONCE]))


async def recover(site: Site, call: str, point: str) -> None:
    """Does what is left to do after the crash, has a worker do the rest, and looks at what it did."""
    job = job_id(call, point)
    was_made = point != "before"
    settings = Overrides(**SETTINGS, namespace=namespace(call, point))
    async with Holdfast(site.url, **settings) as app:
        found = await app.get(other(job))
        assert (found is None) == (call == "add-after" and not was_made)
        if call == "add-after":
            await app.enqueue_many([program.work.using(id=other(job), after=[job]).call()])
        elif call == "put":
            assert [limit.concurrency for limit in await app.limits.list()] == [1] * was_made
        elif call == "close":
            assert (await app.batches.get(other(job))).is_open != was_made
            await app.batches.close(other(job))
        if call == "halt":
            await settle_halted(app, job)
        else:
            first, second = await run(app, job, other(job))
            attempts = await app.history(first.id), await app.history(second.id)
            check_attempts(first, attempts[0])
            check_attempts(second, attempts[1])
            if call != "put" or was_made:
                assert first.finished is not None
                assert micros(first) <= attempts[1][0].token, "the second waited for the first"
        assert all(limit.running == limit.waiting == 0 for limit in await app.limits.list())


async def settle_halted(app: Holdfast, job: str) -> None:
    [dead] = await run(app, job)
    assert dead.state == "dlq"
    assert await app.sequences.halted() == {LINE: job}
    waiting = await app.get(other(job))
    assert waiting is not None
    assert (waiting.state, waiting.run) == ("scheduled", 0)
    await app.sequences.proceed(LINE)
    [after] = await run(app, other(job))
    check_attempts(after, await app.history(after.id))


async def run(app: Holdfast, *jobs: str) -> list[Job[Any]]:
    """Has a worker run until these are finished; the jobs as they then stand."""

    async def finished() -> list[Job[Any]]:
        found = await asyncio.gather(*map(app.get, jobs))
        return [job for job in found if job is not None and job.is_finished]

    async with Worker(
        app.store, program.app.registry, app.settings, queues=("default",), notices=app.notices
    ):
        return await until_async(
            finished, f"{app.settings.namespace}: {jobs}", lambda done: len(done) == len(jobs)
        )


def micros(job: Job[Any]) -> int:
    assert job.finished is not None
    return round(job.finished.timestamp() * 1_000_000)
