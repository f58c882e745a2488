"""Finding the connection inside what callers have: asyncpg, psycopg, psycopg2, SQLAlchemy, Django."""

from collections.abc import Sequence
from typing import Any

from holdfast.model.errors import ConfigurationError, NotInTransaction
from holdfast.stores.postgres.driver import is_connection

_DEPTH = 6
_PSYCOPG = "psycopg"
_PSYCOPG2 = "psycopg2"


def fetch_sync(connection: Any, template: str, args: Sequence[str]) -> Any:
    """The one value of a statement, on a blocking connection; NotInTransaction if none is open there."""
    _check_begun(connection)
    found = _innermost(connection)
    if is_connection(found) or _is_async(found):
        raise ConfigurationError(
            f"{_name(connection)} is used with await: call `enqueue_in` or `complete_in`, without `_sync`"
        )
    if found is None and hasattr(connection, "in_atomic_block"):
        raise _none_open()  # Django's, which connects when it is first used
    if not hasattr(found, "autocommit"):
        raise _stranger(connection)
    _check(found)
    with _plain_cursor(found) as cursor:
        cursor.execute(_with_marks(template, args), args)
        return cursor.fetchone()[0]


async def fetch(connection: Any, template: str, args: Sequence[str]) -> Any:
    """The same on an async connection."""
    found = await _async_innermost(connection)
    if is_connection(found):
        if not found.is_in_transaction():
            raise _none_open()
        marks = [f"${place}" for place in range(1, len(args) + 1)]
        return await found.fetchval(template.format(*marks), *args)
    if not _is_async(found):
        return fetch_sync(connection, template, args)
    from psycopg import AsyncCursor, rows  # noqa: PLC0415  the caller has it

    _check(found)
    async with AsyncCursor(found, row_factory=rows.tuple_row) as cursor:
        await cursor.execute(_with_marks(template, args).encode(), args)
        (value,) = await cursor.fetchone() or (None,)
        return value


def _plain_cursor(connection: Any) -> Any:
    """A cursor with neither rows nor marks of the caller's own making."""
    if _is_of(connection, _PSYCOPG2):
        from psycopg2.extensions import cursor  # noqa: PLC0415  the caller has it

        return connection.cursor(cursor_factory=cursor)
    from psycopg import Cursor, rows  # noqa: PLC0415  the caller has it

    return Cursor(connection, row_factory=rows.tuple_row)


def _with_marks(template: str, args: Sequence[str]) -> str:
    """The statement with the marks of psycopg, which go by order; ours are already in it."""
    return template.replace("%", "%%").format(*["%s"] * len(args))


def _check(found: Any) -> None:
    # A connection that is not in autocommit begins a transaction by itself, with the first statement.
    idle = 0
    if found.autocommit and found.info.transaction_status == idle:
        raise _none_open()


def _check_begun(connection: Any) -> None:
    """Refuses a connection of SQLAlchemy that has not begun: it would not commit what it knows nothing of."""
    is_core = _is_of(connection, "sqlalchemy") and hasattr(connection, "exec_driver_sql")
    if is_core and not connection.in_transaction():
        raise _none_open()


def _innermost(connection: Any) -> Any:
    """Follows the wrappers of SQLAlchemy and Django to the connection of the driver."""
    for _ in range(_DEPTH):
        if connection is None or is_connection(connection):
            return connection
        if _is_of(connection, _PSYCOPG) or _is_of(connection, _PSYCOPG2):
            return connection
        inner = getattr(connection, "driver_connection", None)
        if inner is None:
            inner = getattr(connection, "connection", None)
        connection = inner() if callable(inner) and not hasattr(inner, "cursor") else inner
    return None


async def _async_innermost(connection: Any) -> Any:
    """The driver's connection inside SQLAlchemy's AsyncSession or AsyncConnection, in its transaction."""
    if hasattr(connection, "sync_session"):
        connection = await connection.connection()
    if hasattr(connection, "get_raw_connection"):
        _check_begun(connection)
        # SQLAlchemy leaves the beginning to the first statement that goes through it.
        await connection.exec_driver_sql("SELECT 1")
        connection = await connection.get_raw_connection()
    return _innermost(connection)


def _is_of(connection: object, package: str) -> bool:
    return any(base.__module__.partition(".")[0] == package for base in type(connection).__mro__)


def _is_async(connection: Any) -> bool:
    return _is_of(connection, _PSYCOPG) and any(
        base.__name__ == "AsyncConnection" for base in type(connection).__mro__
    )


def _none_open() -> NotInTransaction:
    return NotInTransaction(
        "this connection has no open transaction; begin one, for instance with "
        "`async with connection.transaction()`"
    )


def _stranger(connection: object) -> ConfigurationError:
    return ConfigurationError(
        f"{_name(connection)} is not a connection to PostgreSQL; give one of asyncpg, "
        "psycopg, psycopg2, SQLAlchemy or Django, or what `transactions.begin()` gives"
    )


def _name(connection: object) -> str:
    kind = type(connection)
    return f"{kind.__module__}.{kind.__qualname__}"
