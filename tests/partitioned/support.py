"""Partitioned stores for tests."""

import asyncio
import inspect
import threading
from collections.abc import Callable, Mapping
from typing import Any, cast

from holdfast import Holdfast
from holdfast.model.errors import StoreUnavailable
from holdfast.model.partition import Layout, layout
from holdfast.store import Session, Store
from holdfast.stores.memory import MemoryStore
from holdfast.stores.partitioned import PartitionedStore
from holdfast.testing import ManualClock

NAMES = ("a", "b", "c")


def memory_layout(*names: str, draining: tuple[str, ...] = (), **queues: str) -> Layout:
    """Partitions in memory, and which queues are mapped to them."""
    stores = {name: f"memory://{name}" for name in names or NAMES}
    return layout(stores, draining=draining, queues=tuple(queues.items()))


def in_memory(clock: ManualClock, found: Layout | None = None) -> PartitionedStore:
    found = found or memory_layout()
    return PartitionedStore(found, {each.name: MemoryStore(clock=clock) for each in found.partitions})


def made_of(
    stores: Mapping[str, Store], given: Mapping[str, str] | None = None, /, **queues: str
) -> PartitionedStore:
    """Partitions of stores that are there already."""
    urls = given or {name: f"memory://{name}" for name in stores}
    return PartitionedStore(layout(urls, queues=tuple(queues.items())), stores)


class _Switched:
    def __init__(self, switch: "Switch", inner: object) -> None:
        self._switch = switch
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            await self._switch.pass_through()
            return await found(*args, **kwargs)

        return call


class _SwitchedSession:
    def __init__(self, switch: "Switch", session: Session) -> None:
        self._session = session
        self._switch = switch

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._session, name)
        return found if name in {"close", "wakeups"} else _Switched(self._switch, found)


class Switch:
    """A store in memory that can be away (`fails`), or hang, and come back with all that it has."""

    migrations = None
    transactions = None

    def __init__(self) -> None:
        self._store = MemoryStore()
        self._back = threading.Event()
        self._back.set()
        self._fails = False

    def fail(self) -> None:
        self._fails = True

    def hang(self) -> None:
        self._back.clear()

    def come_back(self) -> None:
        self._fails = False
        self._back.set()

    async def pass_through(self) -> None:
        if self._fails:
            raise StoreUnavailable("the server is away")
        while not self._back.is_set():  # noqa: ASYNC110  sessions of other event loops wait here too
            await asyncio.sleep(0.01)

    async def connect(self, namespace: str) -> Session:
        await self.pass_through()
        return cast(Session, _SwitchedSession(self, await self._store.connect(namespace)))

    async def facts(self) -> dict[str, str]:
        await self.pass_through()
        return await self._store.facts()

    async def close(self) -> None:
        await self._store.close()


def application(store: PartitionedStore, **settings: Any) -> Holdfast:
    """An application on a store that is made here."""
    app = Holdfast("partition://?a=memory://a", poll_seconds=0.05, **settings)
    app._opening.opened.store = store  # pyright: ignore[reportPrivateUsage]  there is no URL for it
    return app


def switched(**queues: str) -> tuple[dict[str, Switch], PartitionedStore]:
    """Three stores that can be away, and the partitioned store of them; queue `in-a` is in a, and so on."""
    switches = {name: Switch() for name in NAMES}
    rules = {**{f"in-{name}": name for name in NAMES}, **queues}
    return switches, PartitionedStore(
        layout({name: f"memory://{name}" for name in NAMES}, queues=tuple(rules.items())), switches
    )


async def until(condition: Callable[[], bool]) -> None:
    """Waits for something that others do; fails if they do not do it for long."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  nobody tells of it
            await asyncio.sleep(0.01)
