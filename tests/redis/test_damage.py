"""Keys that somebody has deleted or overwritten: no other job suffers, and the worker lives."""

import asyncio
from pathlib import Path

import pytest

from holdfast.model.records import Edit
from holdfast.model.timing import SECOND
from holdfast.testing.conformance.case import LONG, new_job
from tests.chaos import program
from tests.chaos.redis_site import RedisSite
from tests.redis.support import claiming, opened, told
from tests.servers.redis import execute

RECORDS, BODIES = "{holdfast:default}:m", "{holdfast:default}:b"


def test_a_job_that_is_half_gone_takes_no_other_with_it(redis_url: str) -> None:
    now = [1_800_000_000 * SECOND]

    async def scenario() -> None:
        async with opened(redis_url, "default", lambda: now[0]) as session:
            first, gone, held, last = jobs = [new_job() for _ in range(4)]
            await session.jobs.add(jobs)
            await told(redis_url, "HDEL", RECORDS, gone.id)
            claimed = (await session.jobs.tick(claiming(limit=9, lease=SECOND))).claimed
            assert [job.id for job in claimed] == [first.id, held.id, last.id]
            await session.jobs.edit(held.id, claimed[1].version, Edit(ask_cancel=True))
            await told(redis_url, "HDEL", RECORDS, held.id)
            now[0] += 2 * SECOND
            assert [job.id for job in await session.jobs.expired(9)] == [first.id, last.id]
            assert (await session.jobs.tick(claiming(2))).cancel_asked == []
            assert await session.jobs.prune(0, LONG) == 0

    asyncio.run(scenario())


@pytest.mark.process
async def test_bodies_that_cannot_be_read_are_dead_lettered_and_the_worker_lives(
    tmp_path: Path, redis_url: str
) -> None:
    async with RedisSite(tmp_path, redis_url, lease_seconds=1, reclaim_seconds=0.2) as site:
        overwritten, cut, gone = jobs = await site.add(*[program.work.call() for _ in range(3)])
        others = await site.add(*[program.work.call() for _ in range(5)])
        body = execute(redis_url, "HGET", BODIES, cut.id)
        execute(redis_url, "HSET", BODIES, overwritten.id, b"\xc1" * 60)
        execute(redis_url, "HSET", BODIES, cut.id, body[:-20])
        execute(redis_url, "HDEL", BODIES, gone.id)
        [worker] = await site.workers(1)
        await site.finished(*others)
        await site.check(others)
        for job in await site.finished(*jobs):
            assert job.state == "dlq"
            assert job.task == "work"
            assert site.effects("began", job) == []
        assert {job.id for job in await site.app.find(state="dlq")} == {job.id for job in jobs}
        assert worker.code is None
