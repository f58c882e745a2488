"""A thread that reads, so that a read never waits for a write."""

import sqlite3
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

from holdfast.stores.sqlite.address import Address
from holdfast.stores.sqlite.call import Call, deliver
from holdfast.stores.sqlite.clock import Clock
from holdfast.stores.sqlite.connection import connect
from holdfast.stores.sqlite.faults import translated
from holdfast.stores.sqlite.statements import statements
from holdfast.stores.sqlite.transaction import Transaction

_MOST = 64


class Reader:
    """Serves reads one after the other, those that wait together from one snapshot.

    While `at_work` is held by somebody else the thread does not touch SQLite.
    """

    def __init__(self, address: Address, clock: Clock, name: str) -> None:
        self._address = address
        self._clock = clock
        self._sql = statements(address.prefix)
        self._calls: SimpleQueue[Call[Any] | None] = SimpleQueue()
        self._connection: sqlite3.Connection | None = None
        self.at_work = Lock()
        self._thread = Thread(target=self._main, name=f"holdfast-{name}", daemon=True)
        self._thread.start()

    def submit(self, call: Call[Any]) -> None:
        self._calls.put(call)

    def close(self) -> None:
        """Ends the thread after what it was given before."""
        self._calls.put(None)
        self._thread.join()

    def _main(self) -> None:
        going_on = True
        while going_on:
            calls = [self._calls.get()]
            while len(calls) < _MOST and not self._calls.empty():
                calls.append(self._calls.get())
            going_on = None not in calls
            with self.at_work:
                self._serve([call for call in calls if call is not None])
        if self._connection is not None:
            self._connection.close()

    def _serve(self, calls: list[Call[Any]]) -> None:
        try:
            if self._connection is None:
                self._connection = connect(self._address, patience=self._address.patience, read_only=True)
            connection = self._connection
            connection.execute("BEGIN")
            now = self._clock()
            for call in calls:
                self._run(call, Transaction(connection, self._sql, call.ns, now))
            connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001  handed to the callers
            for call in calls:
                call.error = translated(error, self._address.path)
            self._recover()
        deliver(calls)

    def _run(self, call: Call[Any], tx: Transaction) -> None:
        try:
            call.run(tx)
        except Exception as error:  # noqa: BLE001  handed to its caller
            call.error = translated(error, self._address.path)

    def _recover(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
