"""What is special to locks on Redis."""

import asyncio
import secrets

import pytest

from holdfast import Holdfast
from holdfast.model.errors import OutcomeUnknown
from holdfast.model.records import LockHold
from holdfast.stores.redis import RedisStore
from holdfast.stores.redis.scripts import script
from holdfast.testing.conformance.case import LONG
from holdfast.testing.conformance.locks import NAME, SHORT, Bell, granted, refused, wish
from tests.chaos.waiting import until_async
from tests.redis.proxy import Point, Proxy
from tests.servers.redis import Redis

PATIENCE = 10


def test_a_release_wakes_one_who_waits_in_another_store_of_the_same_process(redis_url: str) -> None:
    async def scenario() -> None:
        namespace = secrets.token_hex(4)
        ours, theirs = [await RedisStore.from_url(redis_url).connect(namespace) for _ in range(2)]
        token = await granted(ours.locks, wish("ann"))
        bell = Bell(theirs.locks, "bob")
        await refused(theirs.locks, wish("bob", place=LONG))
        assert await bell.rings(), "it begins to listen, and wakes all once"
        bell.rung.clear()
        await ours.locks.release(NAME, "ann", token)
        assert await bell.rings()
        bell.stop()
        for session in (ours, theirs):
            await session.close()

    asyncio.run(scenario())


def test_one_whom_the_server_does_not_let_listen_asks_again_soon(private_redis: Redis) -> None:
    private_redis.execute("ACL", "SETUSER", "deaf", "on", ">x", "~*", "resetchannels", "+@all", "-subscribe")

    async def scenario() -> None:
        store = RedisStore.from_url(private_redis.url.replace("://", "://deaf:x@"))
        session = await store.connect(secrets.token_hex(4))
        await granted(session.locks, wish("ann"))
        bell = Bell(session.locks, "bob")
        await until_async(
            lambda: refused(session.locks, wish("bob", place=LONG)),
            "it is told to ask again soon",
            lambda answer: answer.after <= SHORT,
        )
        bell.stop()
        await session.close()

    asyncio.run(scenario())


def test_a_connection_that_has_gone_silent_is_replaced_though_nobody_waits_so_long(redis_url: str) -> None:
    """Renewals of a short lease are given up before the store's own patience ends."""

    async def scenario() -> None:
        async with Proxy(redis_url) as proxy:
            session = await RedisStore.from_url(proxy.url + "?timeout=0.5").connect(secrets.token_hex(4))
            token = await granted(session.locks, wish("ann"))
            hold = LockHold(name=NAME, owner="ann", token=token, ttl=LONG)
            proxy.lose(b"ann", "silent")
            answers: list[bool] = []
            async with asyncio.timeout(PATIENCE):
                while not answers:
                    try:
                        async with asyncio.timeout(0.1):
                            answers = await session.locks.renew([hold])
                    except (TimeoutError, OutcomeUnknown):
                        assert proxy.met.is_set()
            assert answers == [True]
            await session.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("point", ["before", "after", "half"])
@pytest.mark.parametrize("call", ["lock_acquire", "lock_renew", "lock_release"])
def test_a_lost_answer_costs_no_lock_and_leaves_none_behind(redis_url: str, call: str, point: Point) -> None:
    async def scenario() -> None:
        async with Proxy(redis_url) as proxy, Holdfast(proxy.url) as app:
            proxy.lose(script(call).sha, point)
            async with app.lock(NAME, ttl=3) as grant:
                if call == "lock_renew":
                    await asyncio.wait_for(proxy.met.wait(), PATIENCE)
                    await asyncio.sleep(1)  # by now it would be lost, had the renewal not been repeated
                assert await app.try_lock(NAME) is None
            await asyncio.wait_for(proxy.met.wait(), PATIENCE)
            assert not grant.lost
            async with app.lock(NAME, wait=0) as second:
                assert second.token > grant.token

    asyncio.run(scenario())
