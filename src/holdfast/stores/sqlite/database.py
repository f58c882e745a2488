"""This process's access to one file: its threads, shared by all sessions and event loops."""

import asyncio
import os
import sqlite3
from collections import defaultdict
from threading import Lock
from typing import ClassVar, TypeVar

from holdfast.model.errors import StoreUnavailable
from holdfast.stores.sqlite import schema
from holdfast.stores.sqlite.address import Address
from holdfast.stores.sqlite.call import Call, Work
from holdfast.stores.sqlite.clock import AnchoredClock, Clock
from holdfast.stores.sqlite.connection import opened
from holdfast.stores.sqlite.listeners import Listeners
from holdfast.stores.sqlite.reader import Reader
from holdfast.stores.sqlite.writer import Writer
from holdfast.stores.waiters import Waiters

T = TypeVar("T")


class Database:
    """A writer and two readers, started when they are needed.

    Made by `share`, and ended when everybody has let go of it. A forked child gets threads and connections of
    its own, and leaves those of its parent alone.
    """

    _shared: ClassVar[dict[object, "Database"]] = {}
    _sharing: ClassVar[Lock] = Lock()
    _abandoned: ClassVar[list[object]] = []

    def __init__(self, address: Address, clock: Clock | None) -> None:
        self._address = address
        self._clock: Clock = clock or AnchoredClock(address.prefix)
        self._users = 0
        self._is_prepared = False
        self._is_closed = False
        self.renew()

    def renew(self) -> None:
        """Forgets threads, connections and listeners."""
        self._lock = Lock()
        self._writer: Writer | None = None
        self._readers: dict[str, Reader] = {}
        self.listeners = Listeners(self._watch)
        self.waiters: defaultdict[int, Waiters] = defaultdict(Waiters)

    @classmethod
    def share(cls, address: Address, clock: Clock | None) -> "Database":
        """The process's database for address and clock; each call needs a `release`."""
        with cls._sharing:
            key = (address, id(clock) if clock is not None else None)
            if key not in cls._shared:
                cls._shared[key] = cls(address, clock)
            return cls._shared[key].hold()

    def hold(self) -> "Database":
        self._users += 1
        return self

    def release(self) -> None:
        """Lets go; the last one waits until all is written and the threads have ended."""
        with self._sharing:
            self._users -= 1
            if self._users > 0:
                return
            self._is_closed = True
            for key in [key for key, database in self._shared.items() if database is self]:
                del self._shared[key]
        for reader in self._readers.values():
            reader.close()
        if self._writer is not None:
            self._writer.close()
        self.renew()

    def prepare(self, *, auto_migrate: bool) -> None:
        """Makes sure of schema and clock, once. Blocks."""
        with self._lock:
            if self._is_prepared:
                return
            if not auto_migrate and not self._address.path.exists():
                raise schema.missing(self._address, ["the file"])
            with opened(self._address) as connection:
                self._set_up(connection, auto_migrate=auto_migrate)
            self._is_prepared = True

    def _set_up(self, connection: sqlite3.Connection, *, auto_migrate: bool) -> None:
        steps = schema.pending(connection, self._address)
        if steps:
            if not auto_migrate:
                raise schema.missing(self._address, [step.name for step in steps])
            schema.apply(connection, self._address)
        if isinstance(self._clock, AnchoredClock) and not self._clock.read_anchor(connection):
            connection.execute("BEGIN IMMEDIATE")
            self._clock.set_anchor(connection)
            connection.execute("COMMIT")

    def write(
        self, ns: int, work: Work[T], *, urgent: bool = False, wakes: bool = False
    ) -> asyncio.Future[T]:
        """Has the work done in the next transaction; `wakes` tells listeners of the namespace after it."""
        call = Call(ns, work, asyncio.get_running_loop(), wakes=wakes)
        (self._writer or self._start_writer()).submit(call, urgent=urgent)
        return call.future

    def read(self, ns: int, work: Work[T], *, slow: bool = False) -> asyncio.Future[T]:
        """Has the work done on a snapshot; what may take long has a thread of its own."""
        call = Call(ns, work, asyncio.get_running_loop(), wakes=False)
        name = "slow-reader" if slow else "reader"
        (self._readers.get(name) or self._start_reader(name)).submit(call)
        return call.future

    def _start_writer(self) -> Writer:
        with self._lock:
            self._check_open()
            if self._writer is None:
                self._writer = Writer(self._address, self._clock, self.listeners.tell)
            return self._writer

    def _start_reader(self, name: str) -> Reader:
        with self._lock:
            self._check_open()
            if name not in self._readers:
                self._readers[name] = Reader(self._address, self._clock, name)
            return self._readers[name]

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreUnavailable(f"{self._address.path}: the session is closed")

    def _watch(self, *, on: bool) -> None:
        if on or self._writer is not None:
            (self._writer or self._start_writer()).watch(on=on)

    def pause(self) -> None:
        """Before a fork: waits until no thread is inside SQLite, whose locks a child would inherit."""
        self._lock.acquire()
        for thread in self._threads():
            thread.at_work.acquire()

    def go_on(self) -> None:
        for thread in self._threads():
            thread.at_work.release()
        self._lock.release()

    def _threads(self) -> list[Writer | Reader]:
        return [*([self._writer] if self._writer is not None else []), *self._readers.values()]

    def abandon(self) -> list[object]:
        """After a fork: what is the parent's. It is neither used nor closed here."""
        left: list[object] = [*self._threads()]
        if self._writer is not None:
            self._writer.abandon()
        self.renew()
        return left

    @classmethod
    def before_fork(cls) -> None:
        cls._sharing.acquire()
        for database in cls._shared.values():
            database.pause()

    @classmethod
    def after_fork_in_parent(cls) -> None:
        for database in cls._shared.values():
            database.go_on()
        cls._sharing.release()

    @classmethod
    def after_fork_in_child(cls) -> None:
        cls._sharing = Lock()
        for database in cls._shared.values():
            cls._abandoned += database.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=Database.before_fork,
        after_in_parent=Database.after_fork_in_parent,
        after_in_child=Database.after_fork_in_child,
    )
