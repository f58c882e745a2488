"""A Cluster: each namespace lies in one slot, and is found wherever it is."""

import asyncio

import pytest

from holdfast.model.errors import StoreUnavailable
from holdfast.stores.redis import RedisStore
from holdfast.testing.conformance.case import new_job
from tests.redis.support import claiming, completing, opened
from tests.servers.redis_cluster import RedisCluster


def test_namespaces_are_spread_and_each_is_whole(redis_cluster: RedisCluster) -> None:
    names = [f"tenant-{number}" for number in range(9)]

    async def scenario() -> None:
        for name in names:
            async with opened(redis_cluster.url, name) as session:
                await session.jobs.add([new_job(queue="mail", key=name), new_job(queue="other")])
                [job] = (await session.jobs.tick(claiming())).claimed
                ticked = await session.jobs.tick(completing(2, job, result=b"1"))
                assert ticked.verdicts == ["accepted"]

    asyncio.run(scenario())
    homes = [{key.partition(b"}")[0] for key in node.execute("KEYS", "*")} for node in redis_cluster.nodes]
    assert sum(map(len, homes)) == len(names)
    assert all(homes)


def test_nothing_is_done_while_a_slot_moves_and_all_is_found_after(redis_cluster: RedisCluster) -> None:
    nodes = redis_cluster.nodes

    async def scenario() -> None:
        async with opened(redis_cluster.url, "moving") as session:
            await session.jobs.add([new_job() for _ in range(4)])
            slot = nodes[0].execute("CLUSTER", "KEYSLOT", "{holdfast:moving}:m")
            source = redis_cluster.owner(slot)
            target = next(node for node in nodes if node is not source)
            await asyncio.to_thread(redis_cluster.begin_move, source, target, slot)
            try:
                for count in (0, 1, 2, 1_000):
                    # Some keys are here and some there: nothing is done, rather than half of something.
                    redis_cluster.move_keys(source, target, slot, count)
                    with pytest.raises(StoreUnavailable):
                        await session.jobs.tick(claiming())
            finally:
                await asyncio.to_thread(redis_cluster.end_move, target, slot)
            [job] = (await session.jobs.tick(claiming())).claimed
            assert (job.run, job.version) == (1, 2)
            assert (await session.jobs.tick(completing(2, job))).verdicts == ["accepted"]
            assert len((await session.jobs.tick(claiming(3, limit=9))).claimed) == 3

    asyncio.run(scenario())


def test_another_node_is_asked_when_the_first_is_away(redis_cluster: RedisCluster) -> None:
    first, second, third = (node.address for node in redis_cluster.nodes)

    async def scenario() -> None:
        for url in (f"redis+cluster://127.0.0.1:1,{second}", f"redis+cluster://{third},{first}"):
            async with opened(url, "seeds") as session:
                await session.jobs.add([new_job()])

    asyncio.run(scenario())
    with pytest.raises(StoreUnavailable):
        asyncio.run(RedisStore.from_url("redis+cluster://127.0.0.1:1,127.0.0.1:2").connect("n"))
