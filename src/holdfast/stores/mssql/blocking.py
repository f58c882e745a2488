"""Connections for transactions of blocking handlers, each used by the thread that it is lent to."""

import os
import time
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from threading import BoundedSemaphore

from holdfast.model.errors import StoreUnavailable
from holdfast.stores.mssql.address import Address
from holdfast.stores.mssql.connecting import Connecting
from holdfast.stores.mssql.driver import Connection, Fault
from holdfast.stores.mssql.faults import is_broken, translated
from holdfast.stores.mssql.seat import Opened


class BlockingConnections:
    """At most `pool` connections, each lent to one thread at a time."""

    def __init__(self, address: Address, connecting: Connecting | None = None) -> None:
        self._address = address
        self._connecting = connecting
        self._begin_anew()

    @contextmanager
    def lent(self) -> Generator[Connection]:
        """A connection, in no transaction; it is rolled back when given back."""
        if self._process != os.getpid():
            self._begin_anew()
        free, idle = self._free, self._idle
        if not free.acquire(timeout=self._address.patience):
            raise StoreUnavailable(
                f"{self._address.place}: all {self._address.pool} connections were in use for "
                f"{self._address.patience:g} s; allow more of them with pool=, or wait longer with timeout=; "
                "nothing was written"
            )
        try:
            opened = self._found() or self._made()
            is_fit = True
            try:
                yield opened.connection
            except BaseException as error:
                is_fit = not _has_broken(error)
                raise
            finally:
                if is_fit and _is_reset(opened.connection):
                    opened.used = time.monotonic()
                    idle.append(opened)
                else:
                    opened.connection.close()
        finally:
            free.release()

    def close(self) -> None:
        """Closes what is not lent."""
        while self._idle:
            self._idle.pop().connection.close()

    def _begin_anew(self) -> None:
        """After a fork too: what was made before it belongs to the other process."""
        self._process = os.getpid()
        self._free = BoundedSemaphore(self._address.pool)
        self._idle: deque[Opened] = deque()

    def _found(self) -> Opened | None:
        while self._idle:
            opened = self._idle.pop()
            if opened.is_usable(time.monotonic() - opened.used):
                return opened
            opened.connection.close()
        return None

    def _made(self) -> Opened:
        if self._connecting is None:
            self._connecting = Connecting(self._address)
        try:
            return self._connecting.open(None)
        except Exception as error:
            raise translated(error, self._address.place, sent=False) from error


def _has_broken(error: BaseException) -> bool:
    return any(isinstance(each, Fault) and is_broken(each) for each in (error, error.__cause__))


def _is_reset(connection: Connection) -> bool:
    try:
        connection.rollback()
    except Fault:
        return False  # what was raised before counts
    return True
