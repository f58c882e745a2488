"""Wants that stand in Redis: who stands in line, who is woken instead, and what is left of it."""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.model.errors import StoreFull
from holdfast.model.lifecycle import State
from holdfast.model.records import NewJob, Tick
from holdfast.model.timing import SECOND
from holdfast.stores.redis import RedisStore
from holdfast.stores.redis.address import parse
from holdfast.stores.redis.database import Database
from holdfast.stores.redis.store import RedisSession
from holdfast.testing.conformance import case
from holdfast.testing.conformance.case import LONG, worker_record
from holdfast.testing.conformance.idle import Idle, standing
from tests.redis.soundness import check_sound
from tests.redis.support import told
from tests.redis.test_safety import contents
from tests.redis.test_wakeups import listening
from tests.servers.redis import Redis
from tests.servers.redis_cluster import RedisCluster

LINE = "y:mail"


def new_job(**fields: Any) -> NewJob:
    """One alone is added by a script of its own, since it is known to be new."""
    return case.new_job(**{"fresh": True, **fields})


@asynccontextmanager
async def serving(url: str, namespace: str, *names: str) -> AsyncGenerator[list[Idle]]:
    """Idle workers that hear what is handed to them."""
    async with AsyncExitStack() as stack:
        workers: list[Idle] = []
        for name in names:
            session = await RedisStore.from_url(url).connect(namespace)
            stack.push_async_callback(session.close)
            await session.fleet.register(worker_record(name), LONG)
            worker = Idle(session, name)
            stack.callback(worker.stop)
            workers.append(worker)
            await worker.listens()
        yield workers


@asynccontextmanager
async def producing(url: str, namespace: str) -> AsyncGenerator[RedisSession]:
    session = await RedisStore.from_url(url).connect(namespace)
    yield session
    await session.close()


def key(namespace: str, name: str) -> str:
    return f"{{holdfast:{namespace}}}:{name}"


async def state(session: RedisSession, job: NewJob) -> State:
    stored = await session.jobs.get(job.id)
    assert stored is not None
    return stored.state


def test_who_does_not_serve_a_task_keeps_its_place_in_line(redis_url: str) -> None:
    async def scenario() -> None:
        name = secrets.token_hex(4)
        async with (
            serving(redis_url, name, "ann", "bob") as (ann, bob),
            producing(redis_url, name) as session,
        ):
            await ann.stand(standing(tasks=("write",), limit=2))
            await bob.stand(standing(tasks=("read",), limit=2))
            await session.jobs.add([new_job(task="read")])
            await session.jobs.add([new_job(task="write")])
            assert [job.task for job in (await bob.handed()).claimed] == ["read"]
            assert [job.task for job in (await ann.handed()).claimed] == ["write"]

    asyncio.run(scenario())


@pytest.mark.parametrize("batch", [1, 2])
def test_the_dead_in_line_are_passed_over_and_taken_out(redis_url: str, batch: int) -> None:
    async def scenario() -> None:
        name = secrets.token_hex(4)
        async with serving(redis_url, name, "ann") as [ann], producing(redis_url, name) as session:
            seq = await ann.stand(standing(limit=2))
            line = key(name, LINE)
            for number in range(40):
                await told(redis_url, "ZADD", line, "1", f"dead-{number}")
            await session.jobs.add([new_job() for _ in range(batch)])
            assert int(await told(redis_url, "ZCARD", line)) == 9, "32 are looked at"
            await ann.stand(standing(limit=5), stood=seq)
            await session.jobs.add([new_job() for _ in range(batch)])
            assert await told(redis_url, "ZRANGE", line, "0", "-1") in ([], [b"ann"])
            assert len((await ann.handed()).claimed) == batch

    asyncio.run(scenario())


@pytest.mark.parametrize("batch", [1, 2])
def test_who_is_not_heard_to_listen_gets_nothing(redis_url: str, batch: int) -> None:
    async def scenario() -> None:
        async with producing(redis_url, "deaf") as session:
            await session.fleet.register(worker_record("ann"), LONG)
            stop = session.wakeups.receive(lambda handed: None)
            tick = Tick(worker="ann", seq=1, moves=[], want=standing(limit=2))
            assert (await session.jobs.tick(tick)).stands, "its connection may be about to listen"
            jobs = [new_job() for _ in range(batch)]
            await session.jobs.add(jobs)
            assert {await state(session, job) for job in jobs} == {State.SCHEDULED}
            stop()

    asyncio.run(scenario())


@pytest.mark.parametrize("batch", [1, 2])
def test_a_message_is_never_large(redis_url: str, batch: int) -> None:
    async def scenario() -> None:
        name = secrets.token_hex(4)
        async with serving(redis_url, name, "ann") as [ann], producing(redis_url, name) as session:
            for size, count in ((400_000, batch), (1_000_000, 0)):
                await ann.stand(standing(limit=2))
                await session.jobs.add([new_job(payload=b"x" * size) for _ in range(batch)])
                assert len((await ann.handed()).claimed) == count

    asyncio.run(scenario())


def test_others_are_woken_for_what_nobody_got_and_for_nothing_else(redis_url: str) -> None:
    async def scenario() -> None:
        name = secrets.token_hex(4)

        async with (
            serving(redis_url, name, "ann") as [ann],
            producing(redis_url, name) as session,
            listening(redis_url, name) as heard,
        ):
            for woken, jobs in (
                (False, [new_job()]),
                (False, [new_job(), new_job()]),
                (True, [new_job() for _ in range(3)]),
                (True, [new_job(task="other")]),
                (True, [new_job(queue="other")]),
                (True, [new_job(delay=100 * SECOND)]),
                (False, [new_job(delay=200 * SECOND)]),
                (True, [new_job(delay=50 * SECOND)]),
                (True, [new_job(), new_job(delay=10 * SECOND)]),
                (False, [new_job(), new_job(delay=20 * SECOND)]),
            ):
                last = await ann.tick(standing(limit=100))
                while last.claimed:
                    last = await ann.tick(standing(limit=100))
                await ann.stand(standing(limit=2))
                await asyncio.sleep(0.01)  # a window in which nothing is told twice
                heard.messages.clear()
                await session.jobs.add(jobs)
                await told(redis_url, "PUBLISH", key(name, "wake"), "the end")
                async with asyncio.timeout(10):
                    while (b"wake", b"the end") not in heard.messages:
                        heard.came.clear()
                        await heard.came.wait()
                assert (len(heard.messages) == 2) is woken, jobs

    asyncio.run(scenario())


def test_a_tick_that_comes_too_late_does_not_replace_a_later_want(redis_url: str) -> None:
    async def scenario() -> None:
        name = secrets.token_hex(4)
        async with serving(redis_url, name, "ann") as [ann], producing(redis_url, name) as session:
            await ann.tick(standing(), seq=900)
            late = await ann.tick(standing(), seq=899)
            assert not late.stands
            await session.jobs.add([new_job()])
            assert (await ann.handed()).seq == 900

    asyncio.run(scenario())


def test_a_want_that_the_worker_knows_nothing_of_ends_with_its_next(redis_url: str) -> None:
    async def scenario() -> None:
        name = secrets.token_hex(4)
        async with serving(redis_url, name, "ann") as [ann], producing(redis_url, name) as session:
            await ann.tick(standing("a", "b"), seq=900)
            job = new_job(queue="a", priority=7)
            await told(redis_url, "ZREM", key(name, "y:a"), "ann")
            await session.jobs.add([job])
            full = await ann.tick(standing("a", "b"), seq=901, stood=None)
            assert ([each.id for each in full.claimed], full.stands) == ([job.id], False)
            other = new_job(queue="b")
            await session.jobs.add([other])
            assert await state(session, other) is State.SCHEDULED

    asyncio.run(scenario())


def test_nothing_is_left_of_workers_that_were_dead_for_long(redis_url: str) -> None:
    async def scenario() -> None:
        name = secrets.token_hex(4)
        database = Database(parse(redis_url), name)
        async with serving(redis_url, name, "ann") as [ann]:
            await ann.stand()
            await ann.session.fleet.register(worker_record("ann"), 1)
            assert await database.run("workers", 0) == []
            assert await told(redis_url, "EXISTS", key(name, "y")) == 0
        await database.close()

    asyncio.run(scenario())


def test_nothing_is_left_of_workers_that_have_gone(redis_url: str) -> None:
    async def scenario() -> None:
        name = secrets.token_hex(4)
        async with (
            serving(redis_url, name, "ann", "bob") as (ann, bob),
            producing(redis_url, name) as session,
        ):
            await ann.stand(standing("a", "b"))
            await bob.stand(standing("b"))
            await session.jobs.add([new_job(queue="a")])
            for worker in (ann, bob):
                await worker.session.fleet.retire(worker.name)
            assert await told(redis_url, "EXISTS", key(name, "y")) == 0
            for queue in "ab":
                left = int(await told(redis_url, "PTTL", key(name, f"y:{queue}")))
                assert left == -2 or 0 < left <= 3_600_000, "the lines end by themselves"
            await asyncio.to_thread(check_sound, redis_url)

    asyncio.run(scenario())


@pytest.mark.parametrize("batch", [1, 2])
def test_memory_at_its_limit_hands_over_nothing_and_ends_no_want(private_redis: Redis, batch: int) -> None:
    url = private_redis.url

    async def scenario() -> None:
        async with serving(url, "full", "ann") as [ann], producing(url, "full") as session:
            seq = await ann.stand(standing(limit=2))
            await told(url, "CONFIG", "SET", "maxmemory", "1")
            before = await contents(url)
            jobs = [new_job(), new_job(key="k", key_ttl=LONG)][:batch]
            with pytest.raises(StoreFull, match="maxmemory"):
                await session.jobs.add(jobs)
            assert await contents(url) == before
            assert ann.told.empty()
            seq = await ann.stand(standing(limit=2), stood=seq)
            await told(url, "CONFIG", "SET", "maxmemory", "0")
            await session.jobs.add(jobs)
            handed = await ann.handed()
            assert (handed.seq, len(handed.claimed)) == (seq, batch)

    asyncio.run(scenario())


def test_a_listener_follows_its_namespace_to_another_node(redis_cluster: RedisCluster) -> None:
    nodes = redis_cluster.nodes

    async def scenario() -> None:
        async with serving(redis_cluster.url, "moving", "ann") as [ann]:
            slot = nodes[0].execute("CLUSTER", "KEYSLOT", "{holdfast:moving}:m")
            source = redis_cluster.owner(slot)
            target = next(node for node in nodes if node is not source)
            await asyncio.to_thread(redis_cluster.begin_move, source, target, slot)
            redis_cluster.move_keys(source, target, slot, 1_000)
            await asyncio.to_thread(redis_cluster.end_move, target, slot)
            await ann.listens()
            for node in nodes:
                channels = node.execute("PUBSUB", "CHANNELS", "*ear*")
                assert (len(channels) == 1) is (node is target)

    asyncio.run(scenario())


def test_a_server_that_starts_anew_hands_over_again(private_redis: Redis) -> None:
    async def scenario() -> None:
        async with serving(private_redis.url, "again", "ann") as [ann]:
            await ann.stand()
            private_redis.execute("SCRIPT", "FLUSH")
            await ann.listens()
            await asyncio.to_thread(private_redis.restart)
            await ann.session.fleet.register(worker_record("ann"), LONG)
            await ann.listens()
            private_redis.execute("FLUSHALL")
            await ann.session.fleet.register(worker_record("ann"), LONG)
            await ann.listens()

    asyncio.run(scenario())


def test_without_notifications_nothing_stands(redis_url: str) -> None:
    async def scenario() -> None:
        session = await RedisStore.from_url(f"{redis_url}?notify=off").connect("quiet")
        await session.fleet.register(worker_record("ann"), LONG)
        ann = Idle(session, "ann")
        assert not (await ann.tick(standing())).stands
        ann.stop()
        await session.close()

    asyncio.run(scenario())


def test_a_job_that_was_due_before_it_was_added_is_stored_as_such(redis_url: str) -> None:
    async def scenario() -> None:
        async with producing(redis_url, "early") as session:
            new = new_job(delay=-5 * SECOND)
            [added] = await session.jobs.add([new])
            stored = await session.jobs.get(new.id)
            assert stored is not None
            assert stored == replace(added.record)
            assert stored.due == stored.created - 5 * SECOND

    asyncio.run(scenario())
