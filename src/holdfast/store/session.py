"""A connection to a store, and the store that gives it."""

from __future__ import annotations

from typing import Protocol

from holdfast.store.events import EventStore
from holdfast.store.fleet import FleetStore
from holdfast.store.flow import FlowStore
from holdfast.store.jobs import JobStore
from holdfast.store.locks import LockStore
from holdfast.store.schedules import ScheduleStore
from holdfast.store.schema import Migrations
from holdfast.store.transactions import Transactions
from holdfast.store.wakeups import Wakeups


class Session(Protocol):
    """A connection to the store, bound to one event loop and one namespace."""

    @property
    def jobs(self) -> JobStore: ...

    @property
    def fleet(self) -> FleetStore: ...

    @property
    def locks(self) -> LockStore: ...

    @property
    def schedules(self) -> ScheduleStore: ...

    @property
    def events(self) -> EventStore: ...

    @property
    def flow(self) -> FlowStore: ...

    @property
    def wakeups(self) -> Wakeups | None: ...

    async def close(self) -> None: ...


class Store(Protocol):
    """A factory of sessions. Making one does no I/O."""

    @property
    def migrations(self) -> Migrations | None: ...

    @property
    def transactions(self) -> Transactions | None: ...

    async def connect(self, namespace: str) -> Session:
        """Opens a session. Raises SchemaMismatch if the schema does not fit and is not made automatically."""
        ...

    async def facts(self) -> dict[str, str]:
        """What an operator should know.

        Engine, version, durability, and warnings under keys that start with "warning".
        """
        ...

    async def close(self) -> None:
        """Ends what the store itself started; sessions are closed first."""
        ...
