"""One connection for many callers: whoever is cancelled, each gets its own answer or none."""

import asyncio
import random

import pytest
import uvloop

from holdfast.model.lifecycle import State
from holdfast.model.records import JobRecord, Query
from holdfast.stores.redis import RedisStore
from holdfast.testing.conformance.case import new_job
from tests.redis.support import claiming, completing, opened, told
from tests.servers.redis import Redis


@pytest.mark.parametrize("seed", range(3))
def test_cancelled_callers_leave_nothing_that_another_could_take_for_its_own(
    redis_url: str, seed: int
) -> None:
    chance = random.Random(seed)

    async def scenario() -> None:
        async with opened(redis_url) as session:
            jobs = [new_job(payload=str(number).encode()) for number in range(100)]
            await session.jobs.add(jobs)
            for _ in range(20):
                asked = [chance.choice(jobs) for _ in range(30)]
                calls = [asyncio.ensure_future(session.jobs.get(job.id)) for job in asked]
                for call in chance.sample(calls, 15):
                    for _ in range(chance.randrange(4)):
                        await asyncio.sleep(0)
                    call.cancel()
                found = await asyncio.gather(*calls, return_exceptions=True)
                for job, answer in zip(asked, found, strict=True):
                    if isinstance(answer, asyncio.CancelledError):
                        continue
                    assert isinstance(answer, JobRecord)
                    assert (answer.id, answer.payload) == (job.id, job.payload)

    asyncio.run(scenario())


def test_what_a_cancelled_caller_asked_for_is_done_whole_or_not_at_all(redis_url: str) -> None:
    async def scenario() -> None:
        async with opened(redis_url) as session:
            batches = [[new_job() for _ in range(10)] for _ in range(20)]
            for turn, batch in enumerate(batches):
                call = asyncio.ensure_future(session.jobs.add(batch))
                for _ in range(turn % 4):
                    await asyncio.sleep(0)
                call.cancel()
                await asyncio.wait([call])
            for batch in batches:
                stored = await session.jobs.states([job.id for job in batch])
                assert len({job is None for job in stored}) == 1
                answers = await session.jobs.add(batch)
                assert len({answer.created for answer in answers}) == 1
            assert len(await session.jobs.find(Query(limit=1_000))) == 200

    asyncio.run(scenario())


def test_scripts_that_the_server_has_forgotten_are_sent_again(redis_url: str) -> None:
    async def scenario() -> None:
        async with opened(redis_url) as session:
            await session.jobs.add([new_job()])
            await told(redis_url, "SCRIPT", "FLUSH")
            [job] = (await session.jobs.tick(claiming())).claimed
            await told(redis_url, "SCRIPT", "FLUSH")
            await asyncio.gather(
                session.jobs.tick(completing(2, job)), *(session.jobs.get(job.id) for _ in range(5))
            )
            stored = await session.jobs.get(job.id)
            assert stored is not None
            assert stored.state is State.SUCCESS

    asyncio.run(scenario())


def test_a_restarted_server_is_found_again_with_what_it_kept(private_redis: Redis) -> None:
    private_redis.restart(appendonly="yes", appendfsync="always")

    async def scenario() -> None:
        async with opened(private_redis.url) as session:
            await session.jobs.add([new_job(), new_job()])
            [job] = (await session.jobs.tick(claiming())).claimed
            await asyncio.to_thread(private_redis.kill)
            await asyncio.to_thread(private_redis.start)
            ticked = await session.jobs.tick(completing(2, job))
            assert ticked.verdicts == ["accepted"]
            [other] = (await session.jobs.tick(claiming(3))).claimed
            assert other.token > job.token

    asyncio.run(scenario())


def test_the_store_runs_on_uvloop_and_through_a_socket(private_redis: Redis) -> None:
    path = f"/tmp/holdfast-{private_redis.port}.sock"
    private_redis.restart(unixsocket=path)

    async def scenario(url: str) -> list[str]:
        async with opened(url, "both") as session:
            await session.jobs.add([new_job()])
            return [job.queue for job in (await session.jobs.tick(claiming())).claimed]

    assert uvloop.run(scenario(private_redis.url)) == ["mail"]
    assert uvloop.run(scenario(f"redis+unix://{path}")) == ["mail"]
    assert asyncio.run(scenario(f"valkey+unix://{path}?db=1")) == ["mail"]


def test_a_closed_session_says_so(redis_url: str) -> None:
    async def scenario() -> None:
        session = await RedisStore.from_url(redis_url).connect("closed")
        await session.close()
        await session.close()
        with pytest.raises(Exception, match="closed"):
            await session.jobs.get("any")

    asyncio.run(scenario())
