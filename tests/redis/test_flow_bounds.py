"""What holds jobs back keeps no call busy for long, however much is parked, and leaves nothing behind."""

import asyncio

import redis

from holdfast.model.flow import LimitRecord, NewFlow, Scope, Usage
from holdfast.model.records import NewJob, QueueCount, Want
from holdfast.model.timing import SECOND
from holdfast.stores.redis.store import RedisSession
from holdfast.testing.conformance.case import LONG, QUEUE, TASK, new_job
from tests.redis.soundness import check_sound
from tests.redis.support import ANN, claiming, completing, emptied, opened

MANY = 6_000
AT_ONCE = 1_000
"""So many jobs are freed from one line, or looked at beyond those that are claimed, by one tick."""


def limit(concurrency: int) -> LimitRecord:
    return LimitRecord(scope=Scope.QUEUE, name=QUEUE, concurrency=concurrency)


async def counted(session: RedisSession) -> QueueCount:
    [found] = [each for each in await session.jobs.count() if each.queue == QUEUE]
    return found


def test_one_tick_parks_and_frees_few_of_many_and_the_next_goes_on_at_once(redis_url: str) -> None:
    async def scenario() -> None:
        async with opened(redis_url) as session:
            await session.flow.put([limit(concurrency=0)])
            for _ in range(MANY // 1_000):
                await session.jobs.add([new_job() for _ in range(1_000)])
            seq, parked = 0, 0
            while parked < MANY:
                seq += 1
                ticked = await session.jobs.tick(claiming(seq))
                before, parked = parked, (await counted(session)).parked
                assert 0 < parked - before <= AT_ONCE + 1
                assert ticked.next_due == 0 or parked == MANY
            await session.flow.remove(Scope.QUEUE, QUEUE)
            assert (await counted(session)).parked == MANY, "the call itself frees none"
            while parked:
                seq += 1
                ticked = await session.jobs.tick(claiming(seq))
                assert len(ticked.claimed) == 1
                [left] = [each for each in await session.jobs.count() if each.state == "scheduled"]
                assert 0 < parked - left.parked <= AT_ONCE
                parked = left.parked
                assert ticked.next_due == 0 or not parked

    asyncio.run(scenario())


def test_the_gates_of_very_many_keys_are_opened_in_parts(redis_url: str) -> None:
    async def scenario() -> None:
        async with opened(redis_url) as session:
            each_key = LimitRecord(scope=Scope.EACH_KEY, name=TASK, concurrency=0)
            await session.flow.put([each_key])
            jobs = [new_job(flow=NewFlow(limit_key=f"key-{number}")) for number in range(1_000)]
            await session.jobs.add(jobs)
            await session.jobs.tick(claiming(1, limit=1))
            assert (await counted(session)).parked == 1_000
            await session.flow.remove(Scope.EACH_KEY, TASK)
            first = await session.jobs.tick(claiming(2, limit=1_000))
            assert 0 < len(first.claimed) < 1_000
            assert first.next_due == 0
            taken, seq = len(first.claimed), 2
            while taken < 1_000:
                seq += 1
                more = (await session.jobs.tick(claiming(seq, limit=1_000))).claimed
                assert more
                taken += len(more)

    asyncio.run(scenario())


def test_nothing_is_left_of_jobs_that_are_done_and_gone(redis_url: str) -> None:
    def flowing(number: int, first: NewJob) -> NewJob:
        flow = NewFlow(
            limit_key=f"key-{number % 3}",
            sequence=f"sequence-{number % 2}",
            after=(first.id,),
            expires=LONG,
        )
        return new_job(flow=flow)

    async def scenario() -> None:
        await emptied(redis_url)
        async with opened(redis_url, "gone") as session:
            limits = [limit(concurrency=3), LimitRecord(scope=Scope.KEY, name="key-1", rate=1_000, period=1)]
            await session.flow.put(limits)
            first = new_job()
            await session.jobs.add([first, *(flowing(number, first) for number in range(12))])
            held, seq, done = (await session.jobs.tick(claiming(1, limit=10))).claimed, 1, 0
            while held:
                done += len(held)
                seq += 1
                tick = completing(seq, *held)
                tick.want = Want(queues=(QUEUE,), tasks=frozenset({TASK}), limit=10, lease=LONG)
                held = (await session.jobs.tick(tick)).claimed
                check_sound(redis_url)
            assert done == 13
            assert await session.jobs.prune(-SECOND, 100) == 13
            for each in limits:
                await session.flow.remove(each.scope, each.name)
            assert await session.flow.usage([f"queue:{QUEUE}"]) == [Usage(running=0, parked=0)]
        with redis.Redis.from_url(redis_url) as client:
            left = {key.partition(b"}:")[2] for key in client.keys("{holdfast:gone}:z*")}
        assert left <= {b"z:n", b"z:r"}, "only the last turn, and a rate that was used just now"

    asyncio.run(scenario())


def test_a_tick_whose_answer_was_lost_claims_nothing_more_when_it_is_repeated(redis_url: str) -> None:
    async def scenario() -> None:
        async with opened(redis_url) as session:
            rate = LimitRecord(
                scope=Scope.EACH_KEY, name=TASK, rate=2, period=2 * SECOND, concurrency=5, burst=2
            )
            await session.flow.put([rate])
            jobs = [new_job(flow=NewFlow(limit_key="key")) for _ in range(4)]
            await session.jobs.add(jobs)
            assert [added.created for added in await session.jobs.add(jobs)] == [False] * 4
            claimed = (await session.jobs.tick(claiming(1, limit=10))).claimed
            again = (await session.jobs.tick(claiming(1, limit=10, repeat=True))).claimed
            assert [job.id for job in again] == [job.id for job in claimed] == [job.id for job in jobs[:2]]
            assert await session.flow.usage(["key:key"]) == [Usage(running=2, parked=2)]
            ended = completing(2, *claimed)
            for _ in range(2):
                assert (await session.jobs.tick(ended)).verdicts == ["accepted", "accepted"]
            assert await session.flow.usage(["key:key"]) == [Usage(running=0, parked=2)]
            assert ANN not in {
                job.worker for job in await session.jobs.states([job.id for job in jobs]) if job
            }

    asyncio.run(scenario())


def test_jobs_that_are_added_again_with_their_links_are_linked_once(redis_url: str) -> None:
    async def scenario() -> None:
        await emptied(redis_url)
        async with opened(redis_url, "again") as session:
            first, closing = new_job(), new_job(flow=NewFlow(held=True, after_any=True))
            second = new_job(flow=NewFlow(after=(first.id, first.id), before=closing.id, sequence="s"))
            for _ in range(2):
                await session.jobs.add([first, closing, second])
            awaited = await session.flow.awaited(second.id)
            assert awaited is not None
            assert (awaited.total, awaited.pending) == (1, 1)
            assert [job for job, _ in await session.flow.before(closing.id, None, 10)] == [second.id]
            check_sound(redis_url)

    asyncio.run(scenario())
