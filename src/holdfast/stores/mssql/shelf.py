"""Connections between two sessions: signing in costs much more than any call."""

import os
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Final, TypeAlias

from holdfast.stores.mssql.address import Address
from holdfast.stores.mssql.seat import Opened

KEPT_SECONDS: Final = 30.0
"""How long a connection waits for the next session before it is closed."""

MOST: Final = 8

Later: TypeAlias = Callable[[float, Callable[[], None]], None]
"""Has something done after so many seconds, on a thread of its own."""


def _later(seconds: float, work: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, work)
    timer.daemon = True
    timer.start()


class Shelf:
    """Connections of this process to one database that no session has. Threads may share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, later: Later = _later) -> None:
        self._clock = clock
        self._later = later
        self._lock = threading.Lock()
        self._kept: deque[tuple[float | None, Opened]] = deque()
        self._is_watched = False

    def take(self, patience: float | None) -> Opened | None:
        """A connection that waits so long for an answer, if there is one that can still be used."""
        while (opened := self._found(patience)) is not None:
            if opened.is_usable(self._clock() - opened.used):
                return opened
            opened.connection.close()
        return None

    def put(self, opened: Opened, patience: float | None) -> None:
        """Keeps a connection that is in no transaction."""
        opened.used = self._clock()
        with self._lock:
            self._kept.append((patience, opened))
            leaving = self._kept.popleft()[1] if len(self._kept) > MOST else None
            self._watch()
        if leaving is not None:
            leaving.connection.close()

    def _found(self, patience: float | None) -> Opened | None:
        with self._lock:
            for place in range(len(self._kept) - 1, -1, -1):
                if self._kept[place][0] == patience:
                    opened = self._kept[place][1]
                    del self._kept[place]
                    return opened
        return None

    def _watch(self) -> None:
        if self._kept and not self._is_watched:
            self._is_watched = True
            self._later(KEPT_SECONDS, self._close_old)

    def _close_old(self) -> None:
        old: list[Opened] = []
        with self._lock:
            while self._kept and self._clock() - self._kept[0][1].used >= KEPT_SECONDS:
                old.append(self._kept.popleft()[1])
            self._is_watched = False
            self._watch()
        for opened in old:
            opened.connection.close()


def shelf_of(address: Address) -> Shelf:
    """The one for that database. A forked process has its own: a connection belongs to whoever opened it."""
    return _shelves[address, os.getpid()]


_shelves: defaultdict[tuple[Address, int], Shelf] = defaultdict(Shelf)
