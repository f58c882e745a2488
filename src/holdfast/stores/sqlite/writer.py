"""The thread that writes: all callers of the process share its transactions."""

import logging
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any

from holdfast.stores.sqlite.address import Address
from holdfast.stores.sqlite.call import Call, deliver
from holdfast.stores.sqlite.checkpoint import Checkpointer
from holdfast.stores.sqlite.clock import AnchoredClock, Clock
from holdfast.stores.sqlite.connection import connect, insist
from holdfast.stores.sqlite.faults import translated
from holdfast.stores.sqlite.statements import statements
from holdfast.stores.sqlite.transaction import Transaction

_log = logging.getLogger(__name__)

WATCH_EVERY = 0.025
ELECTED_EVERY = 0.25
PAUSE_AFTER_FAULT = 1.0
LONGEST_GROUP = 0.05


class Writer:
    """Group commit: whatever waits is written in one transaction, and answered after its commit.

    Heartbeats go first. A call that fails takes nobody with it: what it wrote is undone, the others stay.
    `tell` is called on this thread with the namespaces that have something new, None when another process
    wrote and nobody knows what. While `at_work` is held by somebody else the thread does not touch SQLite.
    """

    def __init__(self, address: Address, clock: Clock, tell: Callable[[set[int] | None], None]) -> None:
        self._address = address
        self._clock = clock
        self._tell = tell
        self._sql = statements(address.prefix)
        self._flows: set[int] = set()
        self._urgent: deque[Call[Any]] = deque()
        self._ordinary: deque[Call[Any]] = deque()
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._checkpointer = Checkpointer(address)
        self._connection: sqlite3.Connection | None = None
        self._data_version: object = None
        self._next_watch = 0.0
        self._is_curious = False
        self._closing = False
        self._is_watching = False
        self.at_work = Lock()
        self._thread = Thread(target=self._main, name="holdfast-writer", daemon=True)
        self._thread.start()

    def submit(self, call: Call[Any], *, urgent: bool) -> None:
        (self._urgent if urgent else self._ordinary).append(call)
        self._bell.put(None)

    def watch(self, *, on: bool) -> None:
        """Whether to look out for what other processes write."""
        self._is_watching = on
        self._is_curious = True
        self._bell.put(None)

    def close(self) -> None:
        """Ends the thread after what it was given before."""
        self._closing = True
        self._bell.put(None)
        self._thread.join()

    def abandon(self) -> None:
        """After a fork: this process has no such thread, and must not touch the connection."""
        self._checkpointer.close()

    def _main(self) -> None:
        while not self._closing or self._urgent or self._ordinary:
            try:
                self._bell.get(timeout=self._pause())
            except Empty:
                self._is_curious = True
            try:
                while self._urgent or self._ordinary:
                    with self.at_work:
                        self._serve()
                        self._look_around()
                if self._is_curious:
                    self._is_curious = False
                    with self.at_work:
                        self._look_around()
            except Exception:  # noqa: BLE001  the thread must live: callers wait for it
                self._next_watch = time.monotonic() + PAUSE_AFTER_FAULT
                _log.exception("the writer failed")
        self._checkpointer.close()
        self._disconnect()

    def _pause(self) -> float | None:
        if self._is_watching:
            return WATCH_EVERY
        return ELECTED_EVERY if self._checkpointer.is_elected else None

    def _serve(self) -> None:
        """One transaction, from the first call that waits to the answers."""
        try:
            connection = self._connected()
            self._begin(connection)
        except Exception as error:  # noqa: BLE001  handed to the callers
            self._fail(self._waiting(), error)
            return
        calls: list[Call[Any]] = []
        before = connection.total_changes
        committing = False
        try:
            if not self._run_together(connection, calls):
                _roll_back(connection)
                self._begin(connection)
                self._run_apart(connection, calls)
            changes = connection.total_changes - before
            if changes and isinstance(self._clock, AnchoredClock):
                self._clock.stamp(connection, self._clock())
            committing = True
            connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001  handed to the callers
            self._undo(connection)
            self._fail(calls, error, committing=committing)
            return
        deliver(calls)
        changed = {call.ns for call in calls if call.wakes and call.error is None}
        if changed:
            self._tell(changed)
        self._checkpointer.note_changes(changes)

    def _begin(self, connection: sqlite3.Connection) -> None:
        """Takes the write lock. SQLite itself would wait for other processes in ever longer steps."""
        insist(lambda: connection.execute("BEGIN IMMEDIATE"), self._address.patience, rest=self._rest)

    def _rest(self, seconds: float) -> None:
        """Waits outside of the work, so that a fork need not wait for the lock too."""
        self.at_work.release()
        try:
            time.sleep(seconds)
        finally:
            self.at_work.acquire()

    def _run_together(self, connection: sqlite3.Connection, calls: list[Call[Any]]) -> bool:
        """Runs what waits, as it comes; False if one failed after it had written something."""
        now = self._clock()
        enough = time.monotonic() + LONGEST_GROUP
        while time.monotonic() < enough and (call := self._next()) is not None:
            calls.append(call)
            before = connection.total_changes
            try:
                call.run(Transaction(connection, self._sql, call.ns, now, self._flows))
            except Exception as error:  # noqa: BLE001  handed to its caller
                call.error = translated(error, self._address.path)
                if connection.total_changes != before or not connection.in_transaction:
                    return False
        return True

    def _run_apart(self, connection: sqlite3.Connection, calls: list[Call[Any]]) -> None:
        """Runs the calls again, each so that it can be undone alone."""
        now = self._clock()
        for call in calls:
            connection.execute("SAVEPOINT holdfast_call")
            try:
                call.run(Transaction(connection, self._sql, call.ns, now, self._flows))
            except Exception as error:
                if not connection.in_transaction:
                    raise
                call.error = translated(error, self._address.path)
                connection.execute("ROLLBACK TO holdfast_call")
            connection.execute("RELEASE holdfast_call")

    def _next(self) -> Call[Any] | None:
        """The next call whose caller still waits."""
        while self._urgent or self._ordinary:
            call = (self._urgent or self._ordinary).popleft()
            if not call.future.cancelled():
                return call
        return None

    def _waiting(self) -> list[Call[Any]]:
        calls: list[Call[Any]] = []
        while (call := self._next()) is not None:
            calls.append(call)
        return calls

    def _fail(self, calls: Iterable[Call[Any]], error: Exception, *, committing: bool = False) -> None:
        failed = list(calls)
        for call in failed:
            call.error = translated(error, self._address.path, committing=committing)
        deliver(failed)

    def _look_around(self) -> None:
        """Notices now and then what others wrote, and makes a checkpoint when one is due."""
        connection = self._connected() if self._is_watching else self._connection
        if connection is None:
            return
        now = time.monotonic()
        if now >= self._next_watch:
            self._next_watch = now + (self._pause() or WATCH_EVERY) / 2
            version = connection.execute("PRAGMA data_version").fetchone()
            if version != self._data_version:
                if self._data_version is not None:
                    self._checkpointer.note_sighting(often=self._is_watching)
                self._data_version = version
                self._tell(None)
        self._checkpointer.run(connection)

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            connection = connect(self._address, patience=self._address.patience)
            connection.execute("PRAGMA busy_timeout = 0").fetchall()
            self._connection = connection
            self._data_version = None
        return self._connection

    def _undo(self, connection: sqlite3.Connection) -> None:
        try:
            _roll_back(connection)
        except sqlite3.Error as error:
            _log.warning("rollback failed, connecting anew", extra={"fields": {"error": str(error)}})
            self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")
