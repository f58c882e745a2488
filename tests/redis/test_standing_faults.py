"""Idle workers whose connections are cut, or whose server is replaced: each job is run once, and soon."""

import asyncio
import random
from collections import Counter

from holdfast import Holdfast
from holdfast.model.errors import StoreError
from holdfast.model.lifecycle import State
from holdfast.stores.redis import RedisStore
from holdfast.testing.conformance.case import LONG, worker_record
from holdfast.testing.conformance.idle import Idle
from tests.chaos.waiting import until
from tests.redis.soundness import check_sound
from tests.redis.support import told
from tests.redis.test_failover import PATIENCE, caught_up
from tests.servers.redis_sentinel import RedisSentinel

CUTS = 12


async def test_workers_whose_connections_are_cut_again_and_again_run_each_job_once(redis_url: str) -> None:
    draw = random.Random(5)
    app = Holdfast(store=redis_url, poll_seconds=600, lease_seconds=600, concurrency=3)
    runs: Counter[int] = Counter()
    count = 0

    @app.task
    async def work(number: int) -> None:
        runs[number] += 1
        await asyncio.sleep(draw.choice([0, 0, 0.002, 0.02]))

    @app.task(queue="other")
    async def other(number: int) -> None:
        runs[number] += 1

    async with app, app.worker(), app.worker(queues=("default", "other")), app.worker(queues=("default",)):
        for _ in range(CUTS):
            for _ in range(20):
                calls = [
                    draw.choice([work, other]).call(count + number)
                    for number in range(draw.choice([1, 1, 1, 2, 5, 30]))
                ]
                count += len(calls)
                await app.enqueue_many(calls)
                await asyncio.sleep(draw.choice([0, 0.001, 0.01]))
            await told(redis_url, "CLIENT", "KILL", "TYPE", draw.choice(["pubsub", "normal"]))
        await until(lambda: len(runs), "every job is begun, though nobody polls", count.__eq__)
    assert set(runs.values()) == {1}
    assert check_sound(redis_url) == {State.SUCCESS: count}


async def test_after_a_failover_jobs_are_handed_over_by_the_new_server(redis_sentinel: RedisSentinel) -> None:
    session = await RedisStore.from_url(redis_sentinel.url + "?timeout=1").connect("failing")
    await session.fleet.register(worker_record("ann"), LONG)
    ann = Idle(session, "ann")
    await ann.listens()
    await ann.stand()
    master = redis_sentinel.master
    await asyncio.to_thread(caught_up, redis_sentinel)
    await asyncio.to_thread(redis_sentinel.kill_master)
    await asyncio.to_thread(redis_sentinel.wait_for_master, master)
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await ann.listens()
                break
            except StoreError:
                await asyncio.sleep(0.05)
    ann.stop()
    await session.close()
