"""Wake-ups: told to other processes rarely and at once, heard again after a restart, needed by nothing."""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from holdfast.model.records import LockWish
from holdfast.stores.marks import process_mark
from holdfast.stores.redis.address import parse
from holdfast.stores.redis.finder import Finder
from holdfast.testing.conformance.case import LONG, new_job
from tests.redis.support import opened, told
from tests.servers.redis import Redis

SOON = 15


class Heard:
    """What another process would hear."""

    def __init__(self) -> None:
        self.messages: list[tuple[bytes, bytes]] = []
        self.came = asyncio.Event()

    def __call__(self, channel: bytes, text: bytes) -> None:
        self.messages.append((channel.rpartition(b":")[2], text))
        self.came.set()


@asynccontextmanager
async def listening(url: str, namespace: str) -> AsyncGenerator[Heard]:
    heard = Heard()
    wire = await Finder(parse(url)).open(heard)
    for channel in ("wake", "turn"):
        await wire.ask("SUBSCRIBE", f"{{holdfast:{namespace}}}:{channel}")
    yield heard
    await wire.end()


def test_many_adds_are_told_to_others_by_few_messages_and_the_last_is_never_kept_back(redis_url: str) -> None:
    async def scenario() -> None:
        name = secrets.token_hex(4)
        async with listening(redis_url, name) as heard, opened(redis_url, name) as session:
            began = asyncio.get_running_loop().time()
            for _ in range(100):
                await session.jobs.add([new_job()])
            took = asyncio.get_running_loop().time() - began
            async with asyncio.timeout(SOON):
                await heard.came.wait()
            await session.close()
            assert {text for _, text in heard.messages} == {process_mark().encode()}
            assert 1 < len(heard.messages) <= took / 0.005 + 3

    asyncio.run(scenario())


def test_what_another_process_tells_wakes_and_what_this_one_told_does_not_wake_twice(redis_url: str) -> None:
    async def scenario() -> None:
        name = secrets.token_hex(4)
        async with opened(redis_url, name) as session:
            woken: asyncio.Queue[None] = asyncio.Queue()
            stop = session.wakeups.listen(lambda: woken.put_nowait(None))
            async with asyncio.timeout(SOON):
                await woken.get()  # it listens
                await told(redis_url, "PUBLISH", f"{{holdfast:{name}}}:wake", process_mark())
                await told(redis_url, "PUBLISH", f"{{holdfast:{name}}}:wake", "somebody else")
                await woken.get()
            assert woken.empty()
            stop()

    asyncio.run(scenario())


def test_the_turn_for_a_lock_is_told_to_the_process_that_waits(redis_url: str) -> None:
    async def scenario() -> None:
        name = secrets.token_hex(4)
        async with listening(redis_url, name) as heard, opened(redis_url, name) as session:
            answer = await session.locks.acquire(LockWish(name="x", owner="ann", ttl=LONG, place=0))
            await session.locks.acquire(LockWish(name="x", owner="bob", ttl=LONG, place=LONG))
            await session.locks.release("x", "ann", answer.token)
            async with asyncio.timeout(SOON):
                await heard.came.wait()
            [(channel, message)] = heard.messages
            assert channel == b"turn"
            assert message.endswith(b" bob")
            woken: asyncio.Queue[None] = asyncio.Queue()
            stop = session.locks.listen("cid", lambda: woken.put_nowait(None))
            async with asyncio.timeout(SOON):
                await woken.get()  # it listens
                for text in ("other bob", "other cid"):
                    await told(redis_url, "PUBLISH", f"{{holdfast:{name}}}:turn", text)
                await woken.get()
            assert woken.empty()
            stop()

    asyncio.run(scenario())


def test_a_listener_hears_again_after_the_server_was_restarted(private_redis: Redis) -> None:
    async def scenario() -> None:
        async with opened(private_redis.url, "again") as session:
            woken: asyncio.Queue[None] = asyncio.Queue()
            stop = session.wakeups.listen(lambda: woken.put_nowait(None))
            async with asyncio.timeout(SOON):
                await woken.get()
                await asyncio.to_thread(private_redis.restart)
                await woken.get()
                await told(private_redis.url, "PUBLISH", "{holdfast:again}:wake", "somebody else")
                await woken.get()
            stop()

    asyncio.run(scenario())


def test_without_wake_ups_nothing_is_told_and_a_lock_is_asked_for_often(redis_url: str) -> None:
    async def scenario() -> None:
        name = secrets.token_hex(4)
        async with listening(redis_url, name) as heard, opened(redis_url + "?notify=off", name) as session:
            await session.jobs.add([new_job()])
            held = await session.locks.acquire(LockWish(name="x", owner="ann", ttl=LONG, place=0))
            refused = await session.locks.acquire(LockWish(name="x", owner="bob", ttl=LONG, place=LONG))
            assert (refused.token, refused.after) == (None, 100_000)
            await session.locks.release("x", "ann", held.token)
            await told(redis_url, "PUBLISH", f"{{holdfast:{name}}}:wake", "the end")
            async with asyncio.timeout(SOON):
                await heard.came.wait()
            assert heard.messages == [(b"wake", b"the end")]

    asyncio.run(scenario())
