"""Finding among many: in steps, whole, and by the shortest way."""

import asyncio
import random

import pytest

from holdfast.model.lifecycle import DEAD_LETTERED, Ending, State
from holdfast.model.records import NewJob, Query, Tick
from holdfast.stores.redis import finding
from holdfast.stores.redis.finding import STEP
from holdfast.testing import ManualClock
from holdfast.testing.conformance.case import LONG, ended, new_job, wanted
from tests.redis.support import ANN, claiming, moving, opened, told

MANY = 2 * STEP + 7


def numbered(number: int, **fields: object) -> NewJob:
    return new_job(id=f"018f0000-0000-7000-8000-{number:012x}", **fields)


def test_a_rare_job_is_found_behind_many_and_pages_are_whole(redis_url: str) -> None:
    async def scenario() -> None:
        async with opened(redis_url) as session:
            await session.jobs.add([numbered(number) for number in range(MANY)])
            rare = [numbered(MANY + turn, task="rare", tags=("red",)) for turn in range(2)]
            await session.jobs.add([numbered(MANY + 5 + turn) for turn in range(STEP)])
            await session.jobs.add([*rare, numbered(MANY * 9, task="rare")])
            found = await session.jobs.find(Query(task="rare", tag="red"))
            assert [job.id for job in found] == [job.id for job in reversed(rare)]
            everything = await session.jobs.find(Query(limit=10_000))
            assert len(everything) == MANY + STEP + 3
            assert everything == sorted(everything, key=lambda job: job.id, reverse=True)
            page = await session.jobs.find(Query(limit=STEP, cursor=everything[9].id))
            assert page == everything[10 : 10 + STEP]

    asyncio.run(scenario())


def test_dead_and_live_jobs_are_found_without_looking_at_all_others(redis_url: str) -> None:
    async def scenario() -> None:
        async with opened(redis_url) as session:
            await session.jobs.add([numbered(number, priority=number) for number in range(MANY)])
            dead, held, *done = (await session.jobs.tick(claiming(limit=MANY - 2))).claimed
            ends = [ended(job) for job in done]
            await session.jobs.tick(moving(2, ended(dead, DEAD_LETTERED, Ending.FAILED), *ends))
            [late] = [added.record for added in await session.jobs.add([numbered(MANY, delay=LONG)])]
            last = [numbered(number).id for number in (MANY - 1, MANY - 2)]
            queries: list[tuple[Query, int, list[str]]] = [
                (Query(states=frozenset({State.DLQ})), 1, [dead.id]),
                (Query(worker=ANN), 2, [held.id]),
                (Query(states=frozenset({State.CLAIMED, State.RUNNING})), 2, [held.id]),
                (Query(states=frozenset({State.SCHEDULED})), 2, [late.id, *last]),
                (Query(states=frozenset({State.SCHEDULED, State.CLAIMED})), 2, [late.id, *last, held.id]),
            ]
            for query, cost, expected in queries:
                before = await calls(redis_url)
                assert [found.id for found in await session.jobs.find(query)] == expected
                assert await calls(redis_url) - before <= cost

    asyncio.run(scenario())


def test_many_waiting_jobs_are_found_as_few_are(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with opened(redis_url) as session:
            await session.jobs.add([numbered(number, delay=number % 2 * LONG) for number in range(20)])
            await session.jobs.tick(claiming(limit=3))
            query = Query(states=frozenset({State.SCHEDULED}), limit=100)
            few = await session.jobs.find(query)
            monkeypatch.setattr(finding, "FEW", 5)
            assert await session.jobs.find(query) == few
            assert len(few) == 17

    asyncio.run(scenario())


async def calls(url: str) -> int:
    """How many scripts the server has run."""
    stats: bytes = await told(url, "INFO", "commandstats")
    lines = [
        line for line in stats.decode().splitlines() if line.startswith(("cmdstat_eval:", "cmdstat_evalsha:"))
    ]
    return sum(int(line.partition("calls=")[2].partition(",")[0]) for line in lines) - failed(lines)


def failed(lines: list[str]) -> int:
    return sum(int(line.rpartition("failed_calls=")[2]) for line in lines)


def test_thousands_that_become_due_at_once_are_all_served_in_order(redis_url: str) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with opened(redis_url, clock=clock) as session:
            jobs = [numbered(number, delay=1_000, priority=-number) for number in range(2_500)]
            await session.jobs.add(jobs)
            clock.advance(1)
            assert sum(line.due for line in await session.jobs.count()) == 2_500
            claimed = (await session.jobs.tick(claiming(limit=2_500))).claimed
            assert [job.id for job in claimed] == [job.id for job in reversed(jobs)]

    asyncio.run(scenario())


def test_next_due_asks_for_another_tick_while_more_has_become_due_than_one_makes_ready(
    redis_url: str,
) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with opened(redis_url, clock=clock) as session:
            await session.jobs.add([numbered(number, delay=1_000) for number in range(1_500)])
            clock.advance(1)
            first = await session.jobs.tick(claiming(1, limit=1_500))
            assert (len(first.claimed), first.next_due) == (1_000, 0)
            second = await session.jobs.tick(claiming(2, limit=1_500))
            assert (len(second.claimed), second.next_due) == (500, None)

    asyncio.run(scenario())


def test_jobs_of_many_tasks_are_claimed_in_one_order_whatever_the_limit(redis_url: str) -> None:
    chance = random.Random(5)
    tasks = [f"task-{number}" for number in range(12)]
    jobs = [
        new_job(
            task=chance.choice(tasks[: 1 + number % 12]), priority=chance.randrange(-2, 2), due=number % 7
        )
        for number in range(600)
    ]
    wanted_tasks = tasks[1:]

    async def scenario() -> None:
        async with opened(redis_url) as session:
            await session.jobs.add(jobs)
            claimed: list[str] = []
            for turn, limit in enumerate((1, 2, 7, 64, 33, 200, 500, 1)):
                want = wanted(tasks=wanted_tasks, limit=limit)
                tick = Tick(worker=ANN, seq=turn, moves=[], want=want)
                claimed += [job.id for job in (await session.jobs.tick(tick)).claimed]
            expected = sorted(jobs, key=lambda job: (job.priority, job.due, job.id))
            assert claimed == [job.id for job in expected if job.task in wanted_tasks]

    asyncio.run(scenario())
