"""The wrapper: a store and its sessions, guarded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from holdfast.store import Migrations, Session, Store, Transactions, Wakeups
from holdfast.store.circuit import Circuit
from holdfast.stores.resilient.breaker import Breaker
from holdfast.stores.resilient.events import ResilientEvents
from holdfast.stores.resilient.fleet import ResilientFleet
from holdfast.stores.resilient.flow import ResilientFlow
from holdfast.stores.resilient.guard import Guard
from holdfast.stores.resilient.jobs import ResilientJobs
from holdfast.stores.resilient.locks import ResilientLocks
from holdfast.stores.resilient.schedules import ResilientSchedules


class ResilientSession:
    """A session whose jobs, fleet, locks, schedules, events and limits survive transient faults."""

    def __init__(self, session: Session, guard: Guard) -> None:
        self._session = session
        self.jobs = ResilientJobs(session.jobs, guard)
        self.fleet = ResilientFleet(session.fleet, guard)
        self.locks = ResilientLocks(session.locks, guard)
        self.schedules = ResilientSchedules(session.schedules, guard)
        self.events = ResilientEvents(session.events, guard)
        self.flow = ResilientFlow(session.flow, guard)

    @property
    def wakeups(self) -> Wakeups | None:
        return self._session.wakeups

    async def close(self) -> None:
        await self._session.close()


class ResilientStore:
    """Any store, with calls that are tried again for up to `retry_seconds` after a transient fault.

    All sessions share one breaker. Migrations, transactions, facts and closing are passed through: they are
    asked for by somebody who sees what happens, or belong to a transaction that cannot be repeated here.
    """

    def __init__(
        self,
        store: Store,
        *,
        retry_seconds: float = 3.0,
        breaker: Breaker | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._breaker = breaker or Breaker(clock=clock)
        self._guard = Guard(self._breaker, retry_seconds=retry_seconds, sleep=sleep, clock=clock)

    @property
    def circuit(self) -> Circuit:
        return self._breaker

    @property
    def migrations(self) -> Migrations | None:
        return self._store.migrations

    @property
    def transactions(self) -> Transactions | None:
        return self._store.transactions

    async def connect(self, namespace: str) -> ResilientSession:
        session = await self._guard.call(lambda: self._store.connect(namespace))
        return ResilientSession(session, self._guard)

    async def facts(self) -> dict[str, str]:
        return await self._store.facts()

    async def close(self) -> None:
        await self._store.close()
