"""This process's access to one file: its threads, shared by all sessions and event loops."""

import asyncio
import os
import sqlite3
from threading import Lock
from typing import ClassVar, TypeVar

from holdfast.stores.sqlite import schema
from holdfast.stores.sqlite.address import Address
from holdfast.stores.sqlite.call import Call, Work
from holdfast.stores.sqlite.clock import AnchoredClock, Clock
from holdfast.stores.sqlite.connection import connect
from holdfast.stores.sqlite.faults import translated
from holdfast.stores.sqlite.listeners import Listeners
from holdfast.stores.sqlite.reader import Reader
from holdfast.stores.sqlite.writer import Writer

T = TypeVar("T")


class Database:
    """A writer and two readers, started when they are needed.

    Made by `share`, and ended when everybody has let go of it. A forked child gets threads and connections of
    its own, and leaves those of its parent alone.
    """

    _shared: ClassVar[dict[object, "Database"]] = {}
    _sharing: ClassVar[Lock] = Lock()
    _abandoned: ClassVar[list[object]] = []

    def __init__(self, address: Address, clock: Clock | None, key: object) -> None:
        self.address = address
        self.clock: Clock = clock or AnchoredClock(address.prefix)
        self._key = key
        self._users = 0
        self._is_prepared = False
        self.listeners = Listeners(self._watch)
        self.renew()

    def renew(self) -> None:
        self._lock = Lock()
        self._writer: Writer | None = None
        self._readers: dict[str, Reader] = {}

    @classmethod
    def share(cls, address: Address, clock: Clock | None) -> "Database":
        """The process's database for the address and clock; each call needs a `release`."""
        key = (address, id(clock) if clock is not None else None)
        with cls._sharing:
            found = cls._shared.get(key)
            if found is None:
                found = cls._shared[key] = cls(address, clock, key)
            found._users += 1
            return found

    def release(self) -> None:
        """Lets go; the last one waits until all is written and the threads have ended."""
        with self._sharing:
            self._users -= 1
            if self._users > 0:
                return
            self._shared.pop(self._key, None)
        for reader in self._readers.values():
            reader.close()
        if self._writer is not None:
            self._writer.close()
        self.renew()

    def prepare(self, *, auto_migrate: bool) -> None:
        """Makes sure of schema and clock. Blocks."""
        with self._lock:
            if self._is_prepared:
                return
            if not auto_migrate and not self.address.path.exists():
                raise schema.missing(self.address, ["the file"])
            try:
                connection = connect(self.address, patience=self.address.patience)
                try:
                    self._set_up(connection, auto_migrate=auto_migrate)
                finally:
                    connection.close()
            except sqlite3.Error as error:
                raise translated(error, self.address.path) from error
            self._is_prepared = True

    def _set_up(self, connection: sqlite3.Connection, *, auto_migrate: bool) -> None:
        steps = schema.pending(connection, self.address)
        if steps and not auto_migrate:
            raise schema.missing(self.address, [step.name for step in steps])
        connection.execute("BEGIN IMMEDIATE")
        if steps:
            schema.apply(connection, self.address)
        if isinstance(self.clock, AnchoredClock):
            self.clock.drop_anchor(connection)
        connection.execute("COMMIT")

    def write(
        self, ns: int, work: Work[T], *, urgent: bool = False, wakes: bool = False
    ) -> asyncio.Future[T]:
        """Has the work done in the next transaction; `wakes` tells listeners of the namespace after it."""
        call = Call(ns, work, asyncio.get_running_loop(), wakes=wakes)
        writer = self._writer
        if writer is None:
            writer = self._start_writer()
        writer.submit(call, urgent=urgent)
        return call.future

    def read(self, ns: int, work: Work[T], *, slow: bool = False) -> asyncio.Future[T]:
        """Has the work done on a snapshot; what may take long has a thread of its own."""
        call = Call(ns, work, asyncio.get_running_loop(), wakes=False)
        name = "slow-reader" if slow else "reader"
        reader = self._readers.get(name)
        if reader is None:
            reader = self._start_reader(name)
        reader.submit(call)
        return call.future

    def _start_writer(self) -> Writer:
        with self._lock:
            if self._writer is None:
                self._writer = Writer(self.address, self.clock, self.listeners.tell)
                if self.listeners:
                    self._writer.watch(on=True)
            return self._writer

    def _start_reader(self, name: str) -> Reader:
        with self._lock:
            if name not in self._readers:
                self._readers[name] = Reader(self.address, self.clock, name)
            return self._readers[name]

    def _watch(self, on: bool) -> None:
        if self._writer is not None or on:
            (self._writer or self._start_writer()).watch(on=on)

    @classmethod
    def after_fork(cls) -> None:
        """In the child: what belongs to the parent is neither used nor closed."""
        cls._sharing = Lock()
        for database in cls._shared.values():
            cls._abandoned += [database._writer, *database._readers.values()]
            if database._writer is not None:
                database._writer.abandon()
            database.renew()


os.register_at_fork(after_in_child=Database.after_fork)
