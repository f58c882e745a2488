"""The server is replaced: the log goes on, without what the new one has not got."""

import asyncio
import secrets

from holdfast.stores import open_store
from holdfast.testing.conformance.events import new_event
from tests.redis.test_failover import caught_up
from tests.redis.test_lock_failover import answered
from tests.servers.redis_sentinel import RedisSentinel


def test_positions_and_versions_go_on_and_what_was_lost_can_be_appended_again(
    redis_sentinel: RedisSentinel,
) -> None:
    async def scenario() -> None:
        session = await open_store(redis_sentinel.url + "?timeout=1").connect(secrets.token_hex(4))
        events = session.events
        kept = [new_event(aggregate="a") for _ in range(3)]
        await events.append(kept)
        assert await events.prune(-1, {}, 1) == 1
        master, replica = redis_sentinel.servers
        await asyncio.to_thread(caught_up, redis_sentinel)
        # What is written from here on never reaches the one that takes over.
        await asyncio.to_thread(replica.freeze)
        await asyncio.to_thread(master.execute, "CLIENT", "KILL", "TYPE", "replica")
        lost = new_event(aggregate="a")
        await events.append([lost])
        assert await events.last() == 4
        await asyncio.to_thread(master.kill)
        await asyncio.to_thread(replica.thaw)
        await asyncio.to_thread(redis_sentinel.wait_for_master, master)

        assert await answered(events.last) == 3
        other = new_event(aggregate="a")
        await events.append([other])
        await events.append([*kept[1:], lost])
        stored = (await events.read(0, 9, topic="orders")).records
        assert [(event.id, event.position, event.version) for event in stored] == [
            (kept[1].id, 2, 2),
            (kept[2].id, 3, 3),
            (other.id, 4, 4),
            (lost.id, 5, 5),
        ]
        await session.close()

    asyncio.run(scenario())
