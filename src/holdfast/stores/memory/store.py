"""The factory of memory sessions, and the clock that they share."""

import platform
import sys
import time
from collections.abc import Callable
from threading import Lock
from typing import TypeAlias

from holdfast.model.errors import ConfigurationError
from holdfast.store import Migrations, Transactions
from holdfast.stores.memory.events import MemoryEvents
from holdfast.stores.memory.fleet import MemoryFleet
from holdfast.stores.memory.flow import MemoryFlow
from holdfast.stores.memory.jobs import MemoryJobs
from holdfast.stores.memory.locks import MemoryLocks
from holdfast.stores.memory.schedules import MemorySchedules
from holdfast.stores.memory.shelf import Shelf

Clock: TypeAlias = Callable[[], int]

_SCHEME = "memory://"


def steady_clock() -> Clock:
    """Microseconds since 1970 that never go back: set by the wall clock once, then counted from there."""
    if sys.platform == "linux":

        def ticks() -> int:
            # Unlike the monotonic clock it goes on while the machine sleeps.
            return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    else:
        ticks = time.monotonic_ns
    offset = time.time_ns() - ticks()
    return lambda: (ticks() + offset) // 1_000


class MemoryWakeups:
    """Wake-ups among the sessions of one process and namespace."""

    def __init__(self, shelf: Shelf, lock: Lock) -> None:
        self._shelf = shelf
        self._lock = lock

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        with self._lock:
            stop = self._shelf.listeners.add(wake)

        def stop_listening() -> None:
            with self._lock:
                stop()

        return stop_listening


class MemorySession:
    """One namespace of a memory store. Any number of them, on any loop or thread, share the data."""

    def __init__(self, shelf: Shelf, lock: Lock, clock: Clock) -> None:
        self.jobs = MemoryJobs(shelf, lock, clock)
        self.fleet = MemoryFleet(shelf, lock, clock)
        self.locks = MemoryLocks(shelf.locks, lock, clock)
        self.schedules = MemorySchedules(shelf, lock, clock)
        self.events = MemoryEvents(shelf, lock, clock)
        self.flow = MemoryFlow(shelf, lock, clock)
        self.wakeups = MemoryWakeups(shelf, lock)

    async def close(self) -> None:
        """Nothing to end: the data belong to the store."""


class MemoryStore:
    """Jobs in the memory of this process, behind one lock.

    `clock` gives microseconds and must never go backwards; a manual one makes time a matter of the test.
    """

    migrations: Migrations | None = None
    transactions: Transactions | None = None
    _named: dict[str, "MemoryStore"] = {}  # noqa: RUF012  shared on purpose
    _naming = Lock()

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or steady_clock()
        self._lock = Lock()
        self._shelves: dict[str, Shelf] = {}

    @classmethod
    def from_url(cls, url: str, auto_migrate: bool | None = None) -> "MemoryStore":
        """`memory://` gives a new store at each call, `memory://name` this process's one of that name."""
        name = url.removeprefix(_SCHEME)
        if any(sign in name for sign in "/?#@"):
            raise ConfigurationError("a memory store is memory:// or memory://name", setting="store")
        if not name:
            return cls()
        with cls._naming:
            return cls._named.setdefault(name, cls())

    async def connect(self, namespace: str) -> MemorySession:
        with self._lock:
            shelf = self._shelves.setdefault(namespace, Shelf())
        return MemorySession(shelf, self._lock, self._clock)

    async def facts(self) -> dict[str, str]:
        return {
            "engine": "memory",
            "version": f"Python {platform.python_version()}",
            "durability": "none: everything is lost with the process",
        }

    async def close(self) -> None:
        """Nothing to end."""
