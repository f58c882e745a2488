"""The way to one partition: connected when it is needed, and again if that failed."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from holdfast.model.errors import PartlyStored, StoreError
from holdfast.model.partition import Partition
from holdfast.store import (
    EventStore,
    FleetStore,
    FlowStore,
    JobStore,
    LockStore,
    ScheduleStore,
    Session,
    Store,
)
from holdfast.store.circuit import Guarded


def named(error: StoreError, partition: str) -> StoreError:
    """The error with the name of the partition that it came from."""
    start = f"partition {partition}: "
    if str(error).startswith(start) or isinstance(error, PartlyStored):
        return error
    told = type(error)(start + str(error))
    told.__cause__ = error
    return told


class _Part:
    """One part of a branch's session, such as its jobs. Whatever that has, this has, once it is connected."""

    def __init__(self, branch: "Branch", part: str) -> None:
        self._branch = branch
        self._part = part

    def __getattr__(self, name: str) -> Any:
        branch, part = self._branch, self._part

        async def call(*args: Any, **kwargs: Any) -> Any:
            try:
                session = branch.session or await branch.connect()
                return await getattr(getattr(session, part), name)(*args, **kwargs)
            except StoreError as error:
                raise named(error, branch.name) from error

        if name.startswith("_"):
            raise AttributeError(name)
        setattr(self, name, call)
        return call


class _Locks(_Part):
    """Those who wait for a lock are woken only once the partition is connected; until then they ask."""

    def listen(self, owner: str, wake: Callable[[], None]) -> Callable[[], None]:
        return self._branch.when_connected(lambda session: session.locks.listen(owner, wake))


class _Wakeups:
    """Hints, and nothing else: slots are shared with other partitions, so no want of a session stands."""

    def __init__(self, branch: "Branch") -> None:
        self._branch = branch

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        def begin(session: Session) -> Callable[[], None]:
            return _nothing if session.wakeups is None else session.wakeups.listen(wake)

        return self._branch.when_connected(begin)


class Branch:
    """A session of one partition. Belongs to one event loop.

    Errors of the store have the partition's name. If a connection cannot be made, whoever asked for
    something is told so, and the next one tries again.
    """

    def __init__(self, partition: Partition, store: Store, namespace: str) -> None:
        self.name = partition.name
        self.session: Session | None = None
        self._store = store
        self._namespace = namespace
        self._loop = asyncio.get_running_loop()
        self._connecting: asyncio.Task[Session] | None = None
        self._waiting: dict[object, Callable[[Session], None]] = {}
        self.wakeups = _Wakeups(self)
        self.locks = cast(LockStore, _Locks(self, "locks"))
        self.jobs = cast(JobStore, _Part(self, "jobs"))
        self.fleet = cast(FleetStore, _Part(self, "fleet"))
        self.schedules = cast(ScheduleStore, _Part(self, "schedules"))
        self.events = cast(EventStore, _Part(self, "events"))
        self.flow = cast(FlowStore, _Part(self, "flow"))

    async def connect(self) -> Session:
        """The partition's own session. All who ask meanwhile share one try."""
        if self.session is not None:
            return self.session
        if self._connecting is None:
            self._connecting = self._loop.create_task(self._store.connect(self._namespace))
            self._connecting.add_done_callback(self._connected)
        try:
            return await asyncio.shield(self._connecting)
        except StoreError as error:
            raise named(error, self.name) from error

    def _connected(self, task: asyncio.Task[Session]) -> None:
        self._connecting = None
        if task.cancelled() or task.exception() is not None:
            return
        self.session = task.result()
        waiting, self._waiting = self._waiting, {}
        for begin in waiting.values():
            begin(self.session)

    def when_connected(self, begin: Callable[[Session], Callable[[], None]]) -> Callable[[], None]:
        """Begins to listen as soon as there is a session; gives back how to end it, from any thread."""
        end: list[Callable[[], None]] = []
        mark = object()

        def start(session: Session) -> None:
            end.append(begin(session))

        def stop() -> None:
            self._waiting.pop(mark, None)
            for each in end:
                each()

        if self.session is not None:
            start(self.session)
        else:
            self._waiting[mark] = start
        return stop

    async def close(self) -> None:
        """Ends the session, if there is one, and the try to make one."""
        self._waiting.clear()
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        session, self.session = self.session, None
        if session is not None:
            await session.close()


def _nothing() -> None:
    """There is nothing to end."""


class PartStore:
    """One partition as a store of its own, whose errors have its name."""

    def __init__(self, partition: Partition, store: Store) -> None:
        self.partition = partition
        self.inner = store
        self.migrations = store.migrations
        self.transactions = store.transactions
        self.circuit = store.circuit if isinstance(store, Guarded) else None

    async def connect(self, namespace: str) -> Session:
        branch = Branch(self.partition, self.inner, namespace)
        await branch.connect()
        return branch

    async def facts(self) -> dict[str, str]:
        return await self.inner.facts()

    async def close(self) -> None:
        """The whole store closes its partitions."""
