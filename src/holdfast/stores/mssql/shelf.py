"""Connections between two sessions: signing in costs much more than any call."""

import os
import threading
import time
from collections import defaultdict, deque
from typing import Final

from holdfast.stores.mssql.address import Address
from holdfast.stores.mssql.seat import Opened

KEPT_SECONDS: Final = 30.0
"""How long a connection waits for the next session before it is closed."""

MOST: Final = 8


class Shelf:
    """Connections of this process to one database that no session has. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: deque[tuple[float | None, Opened]] = deque()
        self._timer: threading.Timer | None = None

    def take(self, patience: float | None) -> Opened | None:
        """A connection that waits so long for an answer, if there is one that can still be used."""
        while (opened := self._found(patience)) is not None:
            if opened.is_usable(time.monotonic() - opened.used):
                return opened
            opened.connection.close()
        return None

    def put(self, opened: Opened, patience: float | None) -> None:
        """Keeps a connection that is in no transaction."""
        opened.used = time.monotonic()
        with self._lock:
            self._kept.append((patience, opened))
            leaving = self._kept.popleft()[1] if len(self._kept) > MOST else None
            if self._timer is None:
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
        self._timer = threading.Timer(KEPT_SECONDS, self._close_old)
        self._timer.daemon = True
        self._timer.start()

    def _close_old(self) -> None:
        old: list[Opened] = []
        with self._lock:
            while self._kept and time.monotonic() - self._kept[0][1].used >= KEPT_SECONDS:
                old.append(self._kept.popleft()[1])
            self._timer = None
            if self._kept:
                self._watch()
        for opened in old:
            opened.connection.close()


def shelf_of(address: Address) -> Shelf:
    """The one for that database. A forked process has its own: a connection belongs to whoever opened it."""
    return _shelves[address, os.getpid()]


_shelves: defaultdict[tuple[Address, int], Shelf] = defaultdict(Shelf)
