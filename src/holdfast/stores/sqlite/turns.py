"""How handlers' transactions come to the write lock: one of a process asks at a time, in short steps."""

import os
import sqlite3
import time
from threading import Lock

from holdfast.stores.sqlite.connection import insist


class Turns:
    """The turns of one process. SQLite's own ever longer waits come too late where others ask often."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._lock = Lock()

    def begin(self, connection: sqlite3.Connection, patience: float) -> None:
        """Begins a transaction that writes; fails as SQLite does if others have the file for too long."""
        deadline = time.monotonic() + patience
        lock = self._of_this_process()
        has_turn = lock.acquire(timeout=patience)
        try:
            _begin(connection, deadline - time.monotonic())
        finally:
            if has_turn:
                lock.release()

    def _of_this_process(self) -> Lock:
        """Not one that another thread had when the process was forked."""
        if self._owner != os.getpid():
            self._owner, self._lock = os.getpid(), Lock()
        return self._lock


def _begin(connection: sqlite3.Connection, patience: float) -> None:
    known = connection.execute("PRAGMA busy_timeout").fetchone()[0]
    connection.execute("PRAGMA busy_timeout = 0").fetchall()
    try:
        insist(lambda: connection.execute("BEGIN IMMEDIATE"), patience)
    finally:
        connection.execute(f"PRAGMA busy_timeout = {int(known)}").fetchall()
