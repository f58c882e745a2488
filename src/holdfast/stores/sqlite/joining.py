"""Finding the SQLite connection inside what callers have: sqlite3, SQLAlchemy, Django, aiosqlite."""

import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from holdfast.model.errors import ConfigurationError, NotInTransaction
from holdfast.stores.sqlite.held import HeldConnection

T = TypeVar("T")

_DEPTH = 6


def plain(connection: Any) -> sqlite3.Connection:
    """The connection with an open transaction inside a blocking one; NotInTransaction if none is open."""
    found = _innermost(connection)
    if isinstance(found, sqlite3.Connection):
        if not found.in_transaction and _has_begun(connection):
            # SQLAlchemy leaves the beginning to sqlite3, which waits for the first write.
            found.execute("BEGIN IMMEDIATE")
        if found.in_transaction:
            return found
    elif found is not None or not hasattr(connection, "in_atomic_block"):
        # Only Django's may have nothing inside: it connects when it is first used.
        raise _stranger(connection)
    raise NotInTransaction(
        "this connection has no open transaction; begin one, for instance with "
        'connection.execute("BEGIN IMMEDIATE")'
    )


def _innermost(connection: Any) -> Any:
    """Follows the wrappers of SQLAlchemy and Django to the connection of the driver."""
    for _ in range(_DEPTH):
        if connection is None or isinstance(connection, sqlite3.Connection) or _is_aiosqlite(connection):
            return connection
        inner = getattr(connection, "driver_connection", None)
        if inner is None:
            inner = getattr(connection, "connection", None)
        connection = inner() if callable(inner) and not isinstance(inner, sqlite3.Connection) else inner
    return None


def _has_begun(connection: Any) -> bool:
    """Whether a SQLAlchemy connection or session is inside a transaction of its own."""
    begun = getattr(connection, "in_transaction", None)
    return bool(begun()) if callable(begun) else False


def _is_aiosqlite(connection: Any) -> bool:
    return isinstance(getattr(connection, "_conn", None), sqlite3.Connection) and hasattr(
        connection, "_execute"
    )


async def run_on(connection: Any, work: Callable[[sqlite3.Connection], T]) -> T:
    """Runs the work where an async connection lives; NotInTransaction if it has no open transaction."""
    if isinstance(connection, HeldConnection):
        return await connection.run(work)
    found = await _async_innermost(connection)
    if isinstance(found, sqlite3.Connection):
        return work(plain(connection))
    if not _is_aiosqlite(found):
        raise _stranger(connection)
    has_begun = found is not connection and _has_begun(connection)

    def there() -> T:
        raw: sqlite3.Connection = found._conn  # noqa: SLF001  there is no public way to its thread
        if not raw.in_transaction and has_begun:
            raw.execute("BEGIN IMMEDIATE")
        return work(plain(raw))

    running: Awaitable[T] = found._execute(there)  # noqa: SLF001  the same
    return await running


async def _async_innermost(connection: Any) -> Any:
    """The driver's connection inside SQLAlchemy's AsyncSession or AsyncConnection."""
    if hasattr(connection, "sync_session"):
        connection = await connection.connection()
    if hasattr(connection, "get_raw_connection"):
        connection = await connection.get_raw_connection()
    return _innermost(connection)


def _stranger(connection: object) -> ConfigurationError:
    kind = type(connection)
    return ConfigurationError(
        f"{kind.__module__}.{kind.__qualname__} is not a connection to SQLite; give one of sqlite3, "
        "aiosqlite, SQLAlchemy or Django, or what `transactions.begin()` gives"
    )
