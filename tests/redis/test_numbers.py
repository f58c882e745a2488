"""Every digit counts: scripts know doubles only, which are exact below 2^53 µs (the year 2255)."""

import asyncio
import random

import pytest

from holdfast.model.lifecycle import INTERRUPTED, STARTED, Ending
from holdfast.model.records import Extension, Held, Move, Verdict
from holdfast.stores.redis.records import EXACT
from holdfast.testing import ManualClock
from holdfast.testing.conformance.case import ended, new_job
from tests.redis.support import ANN, claiming, completing, moving, opened


@pytest.mark.parametrize("distance", [10_000_000, 10_000_001, 12_345_679])
def test_instants_and_tokens_are_exact_up_to_the_last_microsecond(redis_url: str, distance: int) -> None:
    start = EXACT - distance

    async def scenario() -> None:
        clock = ManualClock(start)
        async with opened(redis_url, clock=clock) as session:
            [added] = await session.jobs.add([new_job(delay=1)])
            assert (added.record.created, added.record.due) == (start, start + 1)
            clock.advance(1e-6)
            [job] = (await session.jobs.tick(claiming(lease=1_000_003))).claimed
            assert (job.token, job.lease_until) == (start + 1, start + 1 + 1_000_003)
            beat = Extension(job=job.id, token=job.token, lease=2_000_001, elapsed=0)
            assert await session.jobs.extend(ANN, [beat]) == [Held.HELD]
            for wrong in (-1, 1):
                false = Move(job=job.id, token=job.token + wrong, path=INTERRUPTED, outcome=Ending.RELEASED)
                assert (await session.jobs.tick(moving(2, false))).verdicts == [Verdict.REFUSED]
            stored = await session.jobs.get(job.id)
            assert stored is not None
            assert (stored.lease_until, stored.started) == (start + 1 + 2_000_001, start + 1)
            for run in range(2, 12):
                await session.jobs.tick(completing(run, job, path=INTERRUPTED, outcome=Ending.RELEASED))
                [job] = (await session.jobs.tick(claiming(run))).claimed
                assert job.token == start + run
            await session.jobs.tick(completing(20, job))
            history = await session.jobs.history(job.id)
            assert [attempt.token for attempt in history] == [start + run for run in range(1, 12)]
            assert {attempt.finished for attempt in history} == {start + 1}

    asyncio.run(scenario())


def test_the_order_is_right_for_numbers_of_any_size(redis_url: str) -> None:
    numbers = [0, 1, -1, 2**53, 2**53 + 1, 2**53 - 1, -(2**53) - 1, 2**62, 2**62 + 1, -(2**63), 2**63 - 1]
    jobs = [new_job(priority=priority, due=-abs(due)) for priority in numbers for due in (0, 5, 2**62, 2**53)]

    async def scenario() -> None:
        async with opened(redis_url) as session:
            shuffled = random.Random(7).sample(jobs, len(jobs))
            await session.jobs.add(shuffled)
            claimed = (await session.jobs.tick(claiming(limit=len(jobs)))).claimed
            expected = sorted(jobs, key=lambda job: (job.priority, job.due, job.id))
            assert [job.id for job in claimed] == [job.id for job in expected]
            assert [(job.priority, job.due) for job in claimed] == [
                (job.priority, job.due) for job in expected
            ]

    asyncio.run(scenario())


def test_tokens_grow_though_the_clock_of_the_next_server_is_behind(redis_url: str) -> None:
    async def scenario() -> None:
        ahead, behind = ManualClock(2_000_000_000_000_000), ManualClock(1_900_000_000_000_000)
        async with opened(redis_url, "floor", ahead) as session:
            await session.jobs.add([new_job(), new_job()])
            [first] = (await session.jobs.tick(claiming())).claimed
        async with opened(redis_url, "floor", behind) as session:
            await session.jobs.add([new_job(due=0)])
            [later] = (await session.jobs.tick(claiming(2))).claimed
            assert later.id != first.id
            assert later.token >= first.token

    asyncio.run(scenario())


def test_a_start_at_once_is_told_to_the_microsecond(redis_url: str) -> None:
    async def scenario() -> None:
        clock = ManualClock(1_800_000_000_000_007)
        async with opened(redis_url, clock=clock) as session:
            await session.jobs.add([new_job()])
            [job] = (await session.jobs.tick(claiming())).claimed
            start = Move(job=job.id, token=job.token, path=STARTED, elapsed=3)
            await session.jobs.tick(moving(2, start, ended(job)))
            [attempt] = await session.jobs.history(job.id)
            assert (attempt.started, attempt.finished) == (clock.now() - 3, clock.now())

    asyncio.run(scenario())


def test_results_come_back_whichever_they_are(redis_url: str) -> None:
    results = [None, b"null", b"", b"0", b'"null"', b"null "]

    async def scenario() -> None:
        async with opened(redis_url) as session:
            await session.jobs.add([new_job() for _ in range(2 * len(results))])
            jobs = (await session.jobs.tick(claiming(limit=2 * len(results)))).claimed
            plain = [ended(job, result=result) for job, result in zip(jobs, results, strict=False)]
            rest = zip(jobs[len(results) :], results, strict=True)
            other = [ended(job, result=result, failures=1) for job, result in rest]
            await session.jobs.tick(moving(2, *plain, *other))
            stored = await session.jobs.states([job.id for job in jobs])
            assert [job and job.result for job in stored] == results * 2

    asyncio.run(scenario())
