"""The way to the server fails: what was done is told rightly, and a repeat does nothing twice."""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.model.errors import OutcomeUnknown, StoreUnavailable
from holdfast.model.lifecycle import State
from holdfast.model.records import JobRecord, Query, Tick
from holdfast.store import Session
from holdfast.stores import open_store
from holdfast.stores.redis import RedisStore
from holdfast.stores.redis.address import parse
from holdfast.stores.redis.database import Database
from holdfast.stores.redis.scripts import script
from holdfast.stores.redis.store import RedisSession
from holdfast.testing.conformance.case import ended, new_job
from tests.redis.proxy import Point, Proxy
from tests.redis.support import ANN, claiming, completing, opened
from tests.servers.redis import Redis

POINTS: tuple[Point, ...] = ("before", "after", "half", "silent")
TIMEOUT = "?timeout=0.3"


def patience(point: Point) -> str:
    """Short only where it must come to its end: a busy machine may need longer for all else."""
    return TIMEOUT if point == "silent" else ""


@asynccontextmanager
async def losing(redis_url: str, point: Point) -> AsyncGenerator[tuple[Proxy, RedisSession, RedisSession]]:
    """A proxy that can lose answers, and two sessions of one namespace: one past it, one through it."""
    name = secrets.token_hex(4)
    async with (
        Proxy(redis_url) as proxy,
        opened(redis_url, name) as plain,
        opened(proxy.url + patience(point), name) as bare,
    ):
        yield proxy, plain, bare


def within(seconds: float, scenario: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(seconds):
            await scenario()

    asyncio.run(run())


@pytest.mark.parametrize("point", POINTS)
def test_an_add_whose_answer_was_lost_is_unknown_and_repeats_to_one_job(redis_url: str, point: Point) -> None:
    async def scenario() -> None:
        async with losing(redis_url, point) as (proxy, plain, bare):
            job = new_job()
            await bare.jobs.add([new_job()])
            proxy.lose(script("add").sha, point)
            with pytest.raises(OutcomeUnknown):
                await bare.jobs.add([job])
            is_stored = await plain.jobs.get(job.id) is not None
            assert is_stored is (point != "before")
            [again] = await bare.jobs.add([job])
            assert again.created is not is_stored
            assert again.conflict is None
            assert len(await plain.jobs.find(Query())) == 2

    within(20, scenario)


@pytest.mark.parametrize("point", POINTS)
def test_a_tick_whose_answer_was_lost_gives_the_same_jobs_when_it_is_repeated(
    redis_url: str, point: Point
) -> None:
    async def scenario() -> None:
        async with losing(redis_url, point) as (proxy, plain, bare):
            await plain.jobs.add([new_job() for _ in range(4)])
            held = (await bare.jobs.tick(claiming(1, limit=2))).claimed
            proxy.lose(script("tick_plain").sha, point)
            tick = Tick(worker=ANN, seq=2, moves=[ended(job) for job in held], want=claiming(limit=2).want)
            with pytest.raises(OutcomeUnknown):
                await bare.jobs.tick(tick)
            tick.repeat = True
            ticked = await bare.jobs.tick(tick)
            assert ticked.verdicts == ["accepted"] * 2
            assert len(ticked.claimed) == 2
            assert {job.run for job in ticked.claimed} == {1}
            assert [len(await plain.jobs.history(job.id)) for job in held] == [1, 1]
            assert (await bare.jobs.tick(tick)).claimed == ticked.claimed

    within(20, scenario)


@pytest.mark.parametrize("point", POINTS)
def test_the_store_that_users_open_gets_over_a_lost_answer(redis_url: str, point: Point) -> None:
    async def scenario() -> None:
        name = secrets.token_hex(4)
        async with Proxy(redis_url) as proxy, opened(redis_url, name) as plain:
            session = await open_store(proxy.url + patience(point)).connect(name)
            job = new_job()
            await session.jobs.add([new_job()])
            proxy.lose(script("add").sha, point)
            [added] = await session.jobs.add([job])
            assert proxy.met.is_set()
            assert added.record.id == job.id
            assert len(await plain.jobs.find(Query())) == 2
            await session.close()

    within(20, scenario)


def test_a_read_whose_answer_was_lost_is_simply_not_done(redis_url: str) -> None:
    async def scenario() -> None:
        async with Proxy(redis_url) as proxy, opened(proxy.url + TIMEOUT) as bare:
            [job] = [added.record for added in await bare.jobs.add([new_job()])]
            await bare.jobs.get(job.id)
            for point in POINTS:
                proxy.lose(script("read").sha, point)
                with pytest.raises(StoreUnavailable):
                    await bare.jobs.get(job.id)
                assert await bare.jobs.get(job.id) == job

    within(20, scenario)


async def call_all(session: Session, job: JobRecord) -> list[Callable[[], Awaitable[Any]]]:
    return [
        lambda: session.jobs.add([new_job()]),
        lambda: session.jobs.tick(completing(2, job)),
        lambda: session.fleet.beat(ANN, 1),
    ]


def test_a_server_that_became_a_replica_has_done_nothing(private_redis: Redis) -> None:
    async def scenario() -> None:
        async with opened(private_redis.url) as session:
            await session.jobs.add([new_job()])
            [job] = (await session.jobs.tick(claiming())).claimed
            await asyncio.to_thread(private_redis.execute, "REPLICAOF", "127.0.0.1", "1")
            for call in await call_all(session, job):
                with pytest.raises(StoreUnavailable):
                    await call()
            await asyncio.to_thread(private_redis.promote)
            stored = await session.jobs.get(job.id)
            assert stored is not None
            assert stored.state is State.CLAIMED

    within(20, scenario)


def test_a_server_that_is_away_or_frozen_is_told_within_the_timeout(private_redis: Redis) -> None:
    url = private_redis.url + TIMEOUT

    async def scenario() -> None:
        async with opened(url) as session:
            private_redis.freeze()
            began = time.monotonic()
            with pytest.raises(OutcomeUnknown, match=r"no answer within 0\.3 s"):
                await session.jobs.add([new_job()])
            with pytest.raises(StoreUnavailable):
                await session.jobs.get("any")
            assert time.monotonic() - began < 5
            private_redis.thaw()
            await asyncio.to_thread(private_redis.kill)
            with pytest.raises(StoreUnavailable, match="nothing was written"):
                await session.jobs.add([new_job()])
        with pytest.raises(StoreUnavailable):
            await RedisStore.from_url(url).connect("n")
        with pytest.raises(StoreUnavailable):
            await RedisStore.from_url(url).facts()

    within(30, scenario)


def test_many_callers_of_a_frozen_server_wait_for_one_timeout_together(private_redis: Redis) -> None:
    async def scenario() -> None:
        async with opened(private_redis.url + TIMEOUT) as session:
            private_redis.freeze()
            for fault in (OutcomeUnknown, StoreUnavailable):  # the first have sent theirs before
                began = time.monotonic()
                calls = [session.jobs.add([new_job()]) for _ in range(20)]
                found = await asyncio.gather(*calls, return_exceptions=True)
                assert {type(error) for error in found} == {fault}
                assert time.monotonic() - began < 3
            given_up = asyncio.create_task(session.jobs.get("any"))
            waiting = asyncio.create_task(session.jobs.get("any"))
            await asyncio.sleep(0)
            given_up.cancel()
            private_redis.thaw()
            assert await waiting is None, "whoever gives up does not take the connection from others"

    within(30, scenario)


def test_a_session_that_is_closed_while_it_connects_says_so(private_redis: Redis) -> None:
    async def scenario() -> None:
        private_redis.freeze()
        database = Database(parse(private_redis.url + "?timeout=20"), "n")
        waiting = asyncio.create_task(database.run("queues", writes=False))
        await asyncio.sleep(0)  # until it waits for the connection
        await database.close()
        with pytest.raises(StoreUnavailable, match="closed"):
            await waiting
        with pytest.raises(StoreUnavailable, match="closed"):
            await database.run("queues", writes=False)

    within(10, scenario)


def test_what_is_not_redis_is_told_as_such() -> None:
    async def answer(_: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        to_client.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await to_client.drain()
        to_client.close()
        await to_client.wait_closed()

    async def scenario() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1")
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(StoreUnavailable, match="not Redis"):
            await RedisStore.from_url(f"redis://127.0.0.1:{port}").connect("n")
        server.close()
        await server.wait_closed()

    within(10, scenario)
