"""The wrapper: a store and its sessions, with what they keep encrypted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any

from msgspec.structs import replace

from holdfast.model.encryption import EncryptionKeys
from holdfast.model.events import EventPage, NewEvent
from holdfast.model.records import Added, Handed, Move, NewJob, Verdict
from holdfast.model.scheduling import Schedules, ScheduleWrite, Term
from holdfast.store import EventStore, Migrations, ScheduleStore, Session, Store, Transactions, Wakeups
from holdfast.store.circuit import Circuit, Guarded
from holdfast.store.wakeups import Handovers
from holdfast.stores.sealed.jobs import SealedJobs
from holdfast.stores.sealed.keyring import Keyring
from holdfast.stores.sealed.seal import Seal


class SealedStore:
    """Any store that is not made of several: of such a one, each part is wrapped by itself."""

    def __init__(self, store: Store, keys: EncryptionKeys) -> None:
        self._store = store
        self._keyring = Keyring(keys)

    @property
    def circuit(self) -> Circuit | None:
        return self._store.circuit if isinstance(self._store, Guarded) else None

    @property
    def migrations(self) -> Migrations | None:
        return self._store.migrations

    @property
    def transactions(self) -> Transactions | None:
        inner = self._store.transactions
        return None if inner is None else SealedTransactions(inner, self._keyring)

    async def connect(self, namespace: str) -> SealedSession:
        return SealedSession(await self._store.connect(namespace), Seal(self._keyring, namespace))

    async def facts(self) -> dict[str, str]:
        return await self._store.facts()

    async def close(self) -> None:
        await self._store.close()


class SealedSession:
    """A session whose jobs, events and schedules are encrypted; nothing else has anything to hide."""

    def __init__(self, session: Session, seal: Seal) -> None:
        self._session = session
        self._seal = seal
        self.jobs = SealedJobs(session.jobs, seal)
        self.fleet = session.fleet
        self.locks = session.locks
        self.schedules = SealedSchedules(session.schedules, seal)
        self.events = SealedEvents(session.events, seal)
        self.flow = session.flow

    @property
    def wakeups(self) -> Wakeups | None:
        inner = self._session.wakeups
        return SealedHandovers(inner, self._seal) if isinstance(inner, Handovers) else inner

    async def close(self) -> None:
        await self._session.close()


class SealedHandovers:
    """Wake-ups of which some bring jobs along."""

    def __init__(self, handovers: Handovers, seal: Seal) -> None:
        self._seal = seal
        self._inner = handovers
        self.listen = handovers.listen

    def receive(self, take: Callable[[Handed], None]) -> Callable[[], None]:
        return self._inner.receive(
            lambda handed: take(replace(handed, claimed=self._seal.records(handed.claimed)))
        )


class SealedEvents:
    """Events of one session."""

    def __init__(self, events: EventStore, seal: Seal) -> None:
        self._events = events
        self._seal = seal

    async def append(self, events: Sequence[NewEvent], jobs: Sequence[NewJob] = ()) -> list[Added]:
        seal = self._seal
        return seal.answers(jobs, await self._events.append(seal.events(events), seal.jobs(jobs)))

    async def read(
        self, after: int, limit: int, *, topic: str | None = None, aggregate: str | None = None
    ) -> EventPage:
        return self._seal.page(await self._events.read(after, limit, topic=topic, aggregate=aggregate))

    async def last(self) -> int:
        return await self._events.last()

    async def prune(self, older_than: int, passed: Mapping[str, int], limit: int) -> int:
        return await self._events.prune(older_than, passed, limit)


class SealedSchedules:
    """Schedules of one session."""

    def __init__(self, schedules: ScheduleStore, seal: Seal) -> None:
        self._schedules = schedules
        self._seal = seal

    async def write(self, writes: Sequence[ScheduleWrite], term: Term | None = None) -> list[Verdict] | None:
        return await self._schedules.write([self._seal.write(write) for write in writes], term)

    async def remove(self, name: str) -> bool:
        return await self._schedules.remove(name)

    async def get(self, names: Sequence[str]) -> Schedules:
        return self._seal.schedules(await self._schedules.get(names))

    async def list(self, after: str, limit: int) -> Schedules:
        return self._seal.schedules(await self._schedules.list(after, limit))

    async def due(self, limit: int) -> Schedules:
        return self._seal.schedules(await self._schedules.due(limit))


class SealedTransactions:
    """Work inside transactions that others commit."""

    def __init__(self, transactions: Transactions, keyring: Keyring) -> None:
        self._inner = transactions
        self._keyring = keyring

    def _seal(self, namespace: str) -> Seal:
        return Seal(self._keyring, namespace)

    def add_in_sync(self, connection: Any, namespace: str, jobs: Sequence[NewJob]) -> list[Added]:
        seal = self._seal(namespace)
        return seal.answers(jobs, self._inner.add_in_sync(connection, namespace, seal.jobs(jobs)))

    async def add_in(self, connection: Any, namespace: str, jobs: Sequence[NewJob]) -> list[Added]:
        seal = self._seal(namespace)
        return seal.answers(jobs, await self._inner.add_in(connection, namespace, seal.jobs(jobs)))

    def move_in_sync(self, connection: Any, namespace: str, worker: str, move: Move) -> Verdict:
        return self._inner.move_in_sync(connection, namespace, worker, self._seal(namespace).move(move))

    async def move_in(self, connection: Any, namespace: str, worker: str, move: Move) -> Verdict:
        return await self._inner.move_in(connection, namespace, worker, self._seal(namespace).move(move))

    def append_in_sync(self, connection: Any, namespace: str, events: Sequence[NewEvent]) -> None:
        self._inner.append_in_sync(connection, namespace, self._seal(namespace).events(events))

    async def append_in(self, connection: Any, namespace: str, events: Sequence[NewEvent]) -> None:
        await self._inner.append_in(connection, namespace, self._seal(namespace).events(events))

    def write_in_sync(self, connection: Any, namespace: str, write: ScheduleWrite, term: Term) -> Verdict:
        return self._inner.write_in_sync(connection, namespace, self._seal(namespace).write(write), term)

    async def write_in(self, connection: Any, namespace: str, write: ScheduleWrite, term: Term) -> Verdict:
        return await self._inner.write_in(connection, namespace, self._seal(namespace).write(write), term)

    def begin_sync(self) -> AbstractContextManager[Any]:
        return self._inner.begin_sync()

    def begin(self) -> AbstractAsyncContextManager[Any]:
        return self._inner.begin()
