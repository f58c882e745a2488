"""The server is replaced by one that has forgotten a grant: its token is not given again."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast.model.errors import StoreError
from holdfast.model.records import LockHold, LockWish
from holdfast.model.timing import SECOND
from holdfast.stores import open_store
from tests.redis.test_failover import PATIENCE, caught_up
from tests.servers.redis_sentinel import RedisSentinel

T = TypeVar("T")
TTL = 60 * SECOND


async def answered(ask: Callable[[], Awaitable[T]]) -> T:
    """The answer, asked for until the new server is there."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await ask()
            except StoreError:
                await asyncio.sleep(0.05)


def wish(owner: str, name: str) -> LockWish:
    return LockWish(name=name, owner=owner, ttl=TTL, place=0)


def test_tokens_of_locks_keep_growing_and_a_forgotten_holder_is_told(redis_sentinel: RedisSentinel) -> None:
    async def scenario() -> None:
        session = await open_store(redis_sentinel.url + "?timeout=1").connect(secrets.token_hex(4))
        locks = session.locks
        kept = (await locks.acquire(wish("ann", "kept"))).token
        assert kept is not None
        master, replica = redis_sentinel.servers
        await asyncio.to_thread(caught_up, redis_sentinel)
        # What is written from here on never reaches the one that takes over.
        await asyncio.to_thread(replica.freeze)
        await asyncio.to_thread(master.execute, "CLIENT", "KILL", "TYPE", "replica")
        lost = (await locks.acquire(wish("bob", "lost"))).token
        assert lost is not None
        await asyncio.to_thread(master.kill)
        await asyncio.to_thread(replica.thaw)
        await asyncio.to_thread(redis_sentinel.wait_for_master, master)

        holds = [
            LockHold(name="kept", owner="ann", token=kept, ttl=TTL),
            LockHold(name="lost", owner="bob", token=lost, ttl=TTL),
        ]
        assert await answered(lambda: locks.renew(holds)) == [True, False]
        again = (await locks.acquire(wish("cid", "lost"))).token
        assert again is not None
        assert kept < lost < again
        assert (await locks.acquire(wish("cid", "kept"))).token is None
        await locks.release("lost", "bob", lost)
        assert (await locks.acquire(wish("dan", "lost"))).token is None, "nothing was freed"
        await session.close()

    asyncio.run(scenario())
