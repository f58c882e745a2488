"""Connections of psycopg, for transactions of blocking handlers."""

import os
import selectors
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from threading import BoundedSemaphore
from typing import Any

from holdfast.model.errors import ConfigurationError, StoreUnavailable
from holdfast.stores.postgres.address import Address
from holdfast.stores.postgres.driver import APPLICATION
from holdfast.stores.postgres.faults import is_broken, translated


class BlockingConnections:
    """At most `pool` connections, each lent to one thread at a time."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._begin_anew()

    @contextmanager
    def lent(self) -> Generator[Any]:
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
            connection = self._found() or self._made()
            try:
                yield connection
            except BaseException as error:
                if is_broken(error):
                    connection.close()
                    self.close()
                raise
            finally:
                if _is_reset(connection):
                    idle.append(connection)
        finally:
            free.release()

    def close(self) -> None:
        """Closes what is not lent."""
        while self._idle:
            self._idle.pop().close()

    def _begin_anew(self) -> None:
        """After a fork too: what was made before it belongs to the other process."""
        self._process = os.getpid()
        self._free = BoundedSemaphore(self._address.pool)
        self._idle: deque[Any] = deque()

    def _found(self) -> Any | None:
        while self._idle:
            connection = self._idle.pop()
            if _is_quiet(connection):
                return connection
            connection.close()
        return None

    def _made(self) -> Any:
        address = self._address
        patience = max(1, round(address.patience))
        try:
            import psycopg  # noqa: PLC0415  only blocking transactions need it
        except ImportError as error:
            raise ConfigurationError(
                "blocking transactions on PostgreSQL need psycopg: pip install 'psycopg[binary]', "
                "or use `async with ctx.transaction()`",
                setting="store",
            ) from error
        try:
            connection = psycopg.connect(
                address.dsn,
                application_name=APPLICATION,
                connect_timeout=patience,
                # A thread that waits for a machine that is gone cannot be told to stop; the kernel notices.
                keepalives_idle=patience,
                keepalives_interval=max(1, patience // 3),
                keepalives_count=3,
                tcp_user_timeout=2_000 * patience,
            )
        except Exception as error:
            raise translated(error, address.place, sent=False) from error
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        if not address.prepared:
            connection.prepare_threshold = None
        return connection


def _is_quiet(connection: Any) -> bool:
    """Whether the server has said nothing unasked: what it says to an idle connection is that it ends."""
    with selectors.DefaultSelector() as selector:
        selector.register(connection.fileno(), selectors.EVENT_READ)
        return not selector.select(0)


def _is_reset(connection: Any) -> bool:
    try:
        connection.rollback()
    except Exception:  # noqa: BLE001  it is of no more use, and what was raised before counts
        connection.close()
    return not connection.closed
