"""One group on a memory store, consumed on demand: its clock is moved by hand, its store can fail."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.engine.consumers import Consumers
from holdfast.engine.events import Events, GroupInfo
from holdfast.engine.ids import new_id
from holdfast.model.events import Event
from holdfast.model.retry import Fixed
from holdfast.model.subscription import Subscription, subscribe
from holdfast.stores.memory import MemoryStore
from tests.engine.rig import Rig

TOPIC, GROUP = "orders", "billing"
WAIT = 60
"""Seconds between two attempts."""


class Boom(Exception):
    """What handlers raise here."""


class Desk:
    """A group whose handler notes what it is told, and fails as often as `fails` says for an event's data."""

    def __init__(self, *, handler: Callable[..., Any] | None = None, **options: Any) -> None:
        self.rig = Rig()
        self.told: list[str] = []
        self.done: list[str] = []
        self.fails: dict[str, float] = defaultdict(float)
        given = {"retry": Fixed(3, wait=WAIT), **options}
        self.subscription: Subscription = subscribe(handler or self.handle, TOPIC, GROUP, **given)
        self.events = Events(lambda: _session(self.rig.memory))

    async def handle(self, event: Event[str]) -> None:
        self.told.append(event.data)
        if self.fails[event.data] > 0:
            self.fails[event.data] -= 1
            raise Boom(event.data)
        self.done.append(event.data)

    async def emit(self, *names: str, topic: str = TOPIC) -> None:
        """Events by their data; the aggregate is the letter before the number, "-" stands for none."""
        events = [
            Event(topic=topic, type="t", data=name, aggregate=None if name[0] == "-" else name[0])
            for name in names
        ]
        session = await self.rig.memory.connect("default")
        await session.events.append([event.stored(new_id()) for event in events])

    async def drain(self) -> None:
        """Has a consumer deal with what is due; it holds the lock meanwhile."""
        rig = self.rig
        session = await rig.store.connect("default")
        consumers = Consumers(
            rig.store, session, [self.subscription], rig.settings, rig.notices, new_id(), None
        )
        try:
            await consumers.drain()
        finally:
            consumers.stop(0)
            await consumers.close()

    async def later(self, seconds: float = 2 * WAIT) -> None:
        self.rig.clock.advance(seconds)
        await self.drain()

    async def info(self) -> GroupInfo:
        [info] = await self.events.groups()
        return info

    async def waiting(self) -> list[tuple[str | None, int, bool]]:
        """Aggregate, failures, and whether it is parked, of what waits."""
        return [
            (each.aggregate, each.failures, each.retry_at is None) for each in (await self.info()).waiting
        ]


def of(aggregate: str, names: Sequence[str]) -> list[str]:
    return [name for name in names if name[0] == aggregate]


def _session(store: MemoryStore) -> Any:
    try:
        store.connect("default").send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("the memory store had to wait")
