"""A Redis server that goes away, forgets, stands still or is replaced: workers go on unaided."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Job
from holdfast.model.lifecycle import FINISHED, State
from tests.chaos import program
from tests.chaos.harness import check_attempts
from tests.chaos.load import Load, check_unharmed
from tests.chaos.redis_site import RedisSite
from tests.redis.soundness import check_sound
from tests.servers.redis import Redis
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_sentinel import RedisSentinel

pytestmark = pytest.mark.process

SOON = 8.0
"""Seconds within which workers claim again, once the server is back: about two, more if busy."""


def crash(server: Redis) -> None:
    server.kill()
    server.start()


def stand_still(server: Redis) -> None:
    server.freeze()
    time.sleep(2)  # blocks on purpose: longer than any call waits here
    server.thaw()


def cut_off(server: Redis) -> None:
    for kind in ("normal", "pubsub"):
        server.execute("CLIENT", "KILL", "TYPE", kind)


def forget_scripts(server: Redis) -> None:
    server.execute("SCRIPT", "FLUSH")


async def test_workers_ride_out_crashes_standstills_and_cuts_and_lose_nothing(
    tmp_path: Path, private_redis: Redis
) -> None:
    disturbances: list[Callable[[Redis], object]] = [
        Redis.restart,
        crash,
        stand_still,
        cut_off,
        forget_scripts,
    ]
    await asyncio.to_thread(private_redis.restart, appendonly="yes", appendfsync="everysec")
    url = private_redis.url + "?timeout=0.5"
    async with RedisSite(tmp_path, url, lease_seconds=30, poll_seconds=0.5) as site:
        workers = await site.workers(2)
        [long] = await site.add(program.wait_for.call("gate"))
        await site.began(long)
        load = Load(site)
        async with load.going_on():
            for disturb in disturbances:
                await load.flows()
                await asyncio.to_thread(disturb, private_redis)
                back = time.monotonic()
                await load.flows()
                assert time.monotonic() - back < SOON
        site.open_gate("gate")
        await site.finished(long, *load.jobs)
        await site.check([long, *load.jobs])
        assert await site.outcomes(long) == ["success"], "the lease was kept"
        assert check_sound(private_redis.url) == {State.SUCCESS: len(load.jobs) + 1}
        check_unharmed(workers)


async def test_workers_go_on_with_a_server_that_has_forgotten_everything(
    tmp_path: Path, private_redis: Redis
) -> None:
    async with RedisSite(tmp_path, private_redis.url, lease_seconds=4, poll_seconds=0.5) as site:
        [worker] = await site.workers(1)
        for gate, forget in (("flushed", flush), ("crashed", crash)):
            [long] = await site.add(program.wait_for.call(gate))
            await site.began(long)
            await asyncio.to_thread(forget, private_redis)
            load = Load(site)
            async with load.going_on():
                await load.flows()
            site.open_gate(gate)
            await site.finished(*load.jobs)
            await site.check(load.jobs)
            assert await site.app.get(long.id) is None, "what was lost does not come back"
        assert set(check_sound(private_redis.url)) == {State.SUCCESS}
        check_unharmed([worker])


def flush(server: Redis) -> None:
    server.execute("FLUSHALL")


@pytest.mark.parametrize("lose", [Redis.kill, Redis.freeze])
async def test_a_failover_under_load_leaves_no_job_stuck_and_records_none_twice(
    tmp_path: Path, redis_sentinel: RedisSentinel, lose: Callable[[Redis], None]
) -> None:
    url = redis_sentinel.url + "?timeout=1"
    async with RedisSite(tmp_path, url, lease_seconds=3, poll_seconds=0.5, reclaim_seconds=0.5) as site:
        workers = await site.workers(2)
        load = Load(site)
        async with load.going_on():
            await load.flows(20)
            lost = redis_sentinel.master
            await asyncio.to_thread(lose, lost)
            new = await asyncio.to_thread(redis_sentinel.wait_for_master, lost)
            await load.flows(20)
            if lost.is_running:
                lost.thaw()  # and believes for a while that it is still the master
                await load.flows(20)
        stored = [job for job in load.jobs if await site.app.get(job.id) is not None]
        # Twice twenty have flowed; the few that the old master had not passed on are lost with it.
        assert len(stored) > 20
        await site.finished(*stored)
        for job in stored:
            await check_once(site, job)
        assert set(check_sound(new.url)) <= FINISHED
        check_unharmed(workers)


async def check_once(site: RedisSite, job: Job[Any]) -> None:
    """One success, under the greatest token that any run had, also one that the failover has lost."""
    done = await site.stored(job)
    check_attempts(done, await site.app.history(job.id))
    assert done.token == max(effect.token for effect in site.effects("began", job))


async def test_workers_follow_a_slot_that_moves_and_a_node_that_stands_still(
    tmp_path: Path, redis_cluster: RedisCluster
) -> None:
    nodes = redis_cluster.nodes
    slot: int = nodes[0].execute("CLUSTER", "KEYSLOT", "{holdfast:default}:m")

    def move() -> None:
        source = redis_cluster.owner(slot)
        target = next(node for node in nodes if node is not source)
        redis_cluster.begin_move(source, target, slot)
        for count in (1, 2, 1_000):
            redis_cluster.move_keys(source, target, slot, count)
        redis_cluster.end_move(target, slot)

    def freeze() -> None:
        stand_still(redis_cluster.owner(slot))

    url = redis_cluster.url + "?timeout=0.5"
    async with RedisSite(tmp_path, url, lease_seconds=30, poll_seconds=0.5) as site:
        workers = await site.workers(2)
        [long] = await site.add(program.wait_for.call("gate"))
        await site.began(long)
        load = Load(site)
        async with load.going_on():
            for disturb in (move, freeze, move):
                await load.flows()
                await asyncio.to_thread(disturb)
                back = time.monotonic()
                await load.flows()
                assert time.monotonic() - back < SOON
        site.open_gate("gate")
        await site.finished(long, *load.jobs)
        await site.check([long, *load.jobs])
        assert await site.outcomes(long) == ["success"], "the lease was kept"
        assert check_sound(redis_cluster.owner(slot).url) == {State.SUCCESS: len(load.jobs) + 1}
        check_unharmed(workers)
