"""Whatever is done with limits, sequences and links: the memory store answers alike, and the keys agree."""

import asyncio
from random import Random

import pytest

from holdfast.store import Store
from holdfast.stores.memory import MemoryStore
from holdfast.stores.redis import RedisStore
from holdfast.stores.redis.address import parse
from holdfast.testing import ManualClock
from holdfast.testing.conformance.case import LONG, worker_record
from tests.redis.flow_run import WORKERS, FlowRun
from tests.redis.soundness import check_sound
from tests.redis.support import emptied

STEPS = 15


@pytest.mark.parametrize("seed", range(12))
def test_random_work_is_done_as_in_memory_and_leaves_the_keys_sound(redis_url: str, seed: int) -> None:
    clock = ManualClock(1_800_000_000 * 1_000_000)

    async def scenario() -> None:
        await emptied(redis_url)
        stores: list[Store] = [RedisStore(parse(redis_url), clock=clock), MemoryStore(clock=clock)]
        sessions = [await store.connect("flow") for store in stores]
        for session in sessions:
            for worker in WORKERS:
                await session.fleet.register(worker_record(worker), 1_000 * LONG)
        run = FlowRun(sessions, clock, Random(seed), is_fair=seed % 3 == 0)
        for _ in range(STEPS):
            for _ in range(10):
                await run.step()
            check_sound(redis_url)
        for session in sessions:
            await session.close()

    asyncio.run(scenario())
