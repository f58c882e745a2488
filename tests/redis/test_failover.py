"""The server is replaced: jobs that were leased are run again or finished, and tokens keep growing."""

import asyncio
import secrets

import pytest

from holdfast.model.errors import StoreError
from holdfast.model.lifecycle import RETRIED, Ending, State
from holdfast.model.records import JobRecord, Tick, Ticked
from holdfast.model.timing import SECOND
from holdfast.store import Session
from holdfast.stores import open_store
from holdfast.stores.redis import RedisStore
from holdfast.testing.conformance.case import LONG, ended, new_job, worker_record
from tests.redis.support import ANN, claiming, completing
from tests.servers.redis_sentinel import RedisSentinel
from tests.servers.waiting import wait_until

PATIENCE = 30


async def ticked(session: Session, tick: Tick) -> Ticked:
    """The answer, asked for until the new server is there, as a worker does."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await session.jobs.tick(tick)
            except StoreError:
                tick.repeat = True
                await asyncio.sleep(0.05)


def test_jobs_that_were_leased_before_a_failover_are_finished_or_run_again(
    redis_sentinel: RedisSentinel,
) -> None:
    async def scenario() -> None:
        session = await open_store(redis_sentinel.url + "?timeout=1").connect(secrets.token_hex(4))
        await session.fleet.register(worker_record(ANN), LONG)
        await session.jobs.add([new_job() for _ in range(3)])
        kept, dropped = (await session.jobs.tick(claiming(1, limit=2, lease=SECOND))).claimed
        master = redis_sentinel.master
        await asyncio.to_thread(caught_up, redis_sentinel)
        await asyncio.to_thread(redis_sentinel.kill_master)
        await asyncio.to_thread(redis_sentinel.wait_for_master, master)

        assert (await ticked(session, completing(2, kept))).verdicts == ["accepted"]
        expired = await expire(session, dropped)
        reclaim = ended(expired, RETRIED, Ending.LOST, if_expired=True, delay=0)
        assert (await ticked(session, Tick(worker=ANN, seq=3, moves=[reclaim]))).verdicts == ["accepted"]
        claimed = (await ticked(session, claiming(4, limit=5))).claimed
        assert {job.id for job in claimed} > {dropped.id}
        assert all(job.token > kept.token for job in claimed)
        assert (await session.jobs.get(kept.id) or kept).state is State.SUCCESS
        await session.close()

    asyncio.run(scenario())


async def expire(session: Session, job: JobRecord) -> JobRecord:
    """The job, once its lease has ended by the server's clock."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if found := await session.jobs.expired(10):
                assert [each.id for each in found] == [job.id]
                return found[0]
            await asyncio.sleep(0.05)


def caught_up(servers: RedisSentinel) -> None:
    """Waits until the replica has all that the master had."""
    master, replica = servers.servers
    offset = master.info("replication")["master_repl_offset"]
    wait_until(lambda: replica.info("replication")["slave_repl_offset"] >= offset, "the replica has all")


def test_a_claim_that_the_failover_has_lost_is_made_again_under_a_greater_token(
    redis_sentinel: RedisSentinel,
) -> None:
    async def scenario() -> None:
        session = await RedisStore.from_url(redis_sentinel.url + "?timeout=1").connect(secrets.token_hex(4))
        await session.fleet.register(worker_record(ANN), LONG)
        await session.jobs.add([new_job()])
        master, replica = redis_sentinel.servers
        await asyncio.to_thread(caught_up, redis_sentinel)
        # What is written from here on never reaches the one that takes over.
        await asyncio.to_thread(replica.freeze)
        await asyncio.to_thread(master.execute, "CLIENT", "KILL", "TYPE", "replica")
        [lost] = (await session.jobs.tick(claiming(1))).claimed
        await asyncio.to_thread(master.kill)
        await asyncio.to_thread(replica.thaw)
        await asyncio.to_thread(redis_sentinel.wait_for_master, master)
        again = await ticked(session, claiming(2))
        assert [job.id for job in again.claimed] == [lost.id]
        assert again.claimed[0].token > lost.token
        assert (await ticked(session, completing(3, lost))).verdicts == ["refused"]
        await session.close()

    asyncio.run(scenario())


def test_a_service_that_no_sentinel_knows_is_told(redis_sentinel: RedisSentinel) -> None:
    url = redis_sentinel.url.replace("/mymaster/", "/nobody/")
    with pytest.raises(StoreError, match="nobody"):
        asyncio.run(RedisStore.from_url(url).connect("n"))
