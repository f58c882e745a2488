"""No call keeps the server busy for long, however much there is, and nothing grows for ever."""

import asyncio

from holdfast.model.records import Tick, Want
from holdfast.model.timing import SECOND
from holdfast.stores.redis.address import parse
from holdfast.stores.redis.database import Database
from holdfast.stores.redis.jobs import PRUNED
from holdfast.testing.conformance.case import LONG, TASK, new_job, worker_record
from tests.redis.support import ANN, claiming, completing, opened

DAY = 86_400 * SECOND


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000 * SECOND

    def __call__(self) -> int:
        return self.now


def test_few_of_many_due_jobs_are_made_ready_by_one_call_and_all_are_counted(redis_url: str) -> None:
    clock = Clock()

    async def scenario() -> None:
        database = Database(parse(redis_url), "many", clock)
        async with opened(redis_url, "many", clock) as session:
            for queue in "abcde":
                await session.jobs.add([new_job(queue=queue, delay=SECOND) for _ in range(1_000)])
            clock.now += SECOND
            has_more, counts = await database.run("count")
            told = dict(zip(counts[::2], map(int, counts[1::2]), strict=True))
            ready = sum(count for kind, count in told.items() if kind.startswith(b"S"))
            assert (has_more, ready) == (1, 3_000)
            assert [(each.queue, each.count, each.due) for each in await session.jobs.count()] == [
                (queue, 1_000, 1_000) for queue in "abcde"
            ]
        await database.close()

    asyncio.run(scenario())


def test_pruning_passes_over_many_jobs_that_were_deleted_in_small_steps(redis_url: str) -> None:
    clock = Clock()

    async def scenario() -> None:
        database = Database(parse(redis_url), "stale", clock)
        async with opened(redis_url, "stale", clock) as session:
            await session.jobs.add([new_job() for _ in range(PRUNED + 2)])
            done = (await session.jobs.tick(claiming(limit=PRUNED + 2))).claimed
            await session.jobs.tick(completing(2, *done))
            for job in done[:-2]:
                await session.jobs.delete(job.id)
            clock.now += SECOND
            assert await database.run("prune", 0, 5_000, 10, b"") == [0, 1, 0]
            assert await session.jobs.prune(0, 1) == 1
            assert await session.jobs.prune(0, 10_000) == 1
            assert await session.jobs.prune(0, 10_000) == 0
        await database.close()

    asyncio.run(scenario())


def test_a_worker_may_serve_more_queues_than_lua_has_room_for_on_its_stack(redis_url: str) -> None:
    async def scenario() -> None:
        async with opened(redis_url) as session:
            await session.jobs.add([new_job(queue="q9999")])
            await session.fleet.pause("q1")
            names = tuple(f"q{number}" for number in range(10_000))
            want = Want(queues=names, tasks=frozenset({TASK}), limit=1, lease=LONG)
            ticked = await session.jobs.tick(Tick(worker=ANN, seq=1, moves=[], want=want))
            assert [job.queue for job in ticked.claimed] == ["q9999"]
            assert ticked.paused == {"q1"}

    asyncio.run(scenario())


def test_workers_that_are_dead_for_a_day_are_forgotten_by_the_next_that_comes(redis_url: str) -> None:
    clock = Clock()

    async def scenario() -> None:
        database = Database(parse(redis_url), "dead", clock)
        async with opened(redis_url, "dead", clock) as session:
            for number in range(3):
                await session.fleet.register(worker_record(f"bob-{number}"), SECOND)
                clock.now += DAY + SECOND
            for part in (b"u", b"p"):
                assert await database.ask("HKEYS", database.prefix + part) == [b"bob-2"]
        await database.close()

    asyncio.run(scenario())
