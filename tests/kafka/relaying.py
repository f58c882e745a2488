"""A process that relays what is there, and is killed at one of the points between its calls.

python -m tests.kafka.relaying URL NAMESPACE SERVERS POINT
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, cast

from holdfast.engine.consumers import Consumers
from holdfast.engine.notices import Notices
from holdfast.kafka import KafkaRelay
from holdfast.model.events import EventRecord
from holdfast.model.settings import Settings
from holdfast.model.subscription import subscribe_relay
from holdfast.store import Session
from holdfast.stores.sqlite import SqliteStore
from tests.kafka.support import QUICK

LEASE = 0.5


class Points:
    """Counts the points before and after each call, and dies at one of them."""

    def __init__(self, last: int) -> None:
        self._last = last
        self._numbers = count(1)

    def reached(self) -> None:
        if next(self._numbers) == self._last:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        async def made(*args: Any, **kwargs: Any) -> Any:
            self.reached()
            answer = await call(*args, **kwargs)
            self.reached()
            return answer

        return made


class Part:
    """A part of a session, with a point before and after each of its calls."""

    def __init__(self, part: object, points: Points) -> None:
        self._part = part
        self._points = points

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        return self._points.around(found) if asyncio.iscoroutinefunction(found) else found


class Pointed:
    """A session whose calls are points."""

    def __init__(self, session: Session, points: Points) -> None:
        self.schedules = Part(session.schedules, points)
        self.events = Part(session.events, points)
        self.locks = Part(session.locks, points)
        self.wakeups = None


async def relay(url: str, namespace: str, servers: str, point: int) -> None:
    """Relays all that is there, once it has the lock of whoever died before."""
    store, points = SqliteStore.from_url(url), Points(point)
    session = await store.connect(namespace)
    last = await session.events.last()
    settings = Settings(store=url, namespace=namespace, leader_lease_seconds=LEASE)
    async with KafkaRelay({"bootstrap.servers": servers, **QUICK}) as kafka:

        async def handle(events: Sequence[EventRecord]) -> None:
            await points.around(kafka.handle)(events)

        pointed = cast(Session, Pointed(session, points))
        consumers = Consumers(
            store, pointed, [subscribe_relay(handle, "orders", "kafka")], settings, Notices(), "w", None
        )
        while await consumers.drain() < last:
            if await session.locks.holder("holdfast.on:kafka:orders") is None:
                break
            await asyncio.sleep(LEASE / 10)
        await consumers.close()
    await session.close()
    await store.close()


if __name__ == "__main__":
    url, name, servers, point = sys.argv[1:]
    asyncio.run(relay(url, name, servers, int(point)))
