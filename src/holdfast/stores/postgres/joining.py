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
    found = _innermost(connection)
    if _is_of(found, _PSYCOPG) and hasattr(found, "autocommit") and not _is_async(found):
        from psycopg.rows import tuple_row  # noqa: PLC0415  the caller has it

        _check(found.autocommit, found.info.transaction_status)
        with found.cursor(row_factory=tuple_row) as cursor:
            return cursor.execute(_with_marks(template, args), args).fetchone()[0]
    if _is_of(found, _PSYCOPG2):
        from psycopg2.extensions import cursor as plain  # noqa: PLC0415  the caller has it

        _check(found.autocommit, found.info.transaction_status)
        with found.cursor(cursor_factory=plain) as cursor:
            cursor.execute(_with_marks(template, args), args)
            return cursor.fetchone()[0]
    if found is None and hasattr(connection, "in_atomic_block"):
        raise _none_open()  # Django's, which connects when it is first used
    raise _stranger(connection)


async def fetch(connection: Any, template: str, args: Sequence[str]) -> Any:
    """The same on an async connection."""
    found = await _async_innermost(connection)
    if is_connection(found):
        if not found.is_in_transaction():
            raise _none_open()
        marks = [f"${place}" for place in range(1, len(args) + 1)]
        return await found.fetchval(template.format(*marks), *args)
    if _is_of(found, _PSYCOPG) and _is_async(found):
        from psycopg.rows import tuple_row  # noqa: PLC0415  the caller has it

        _check(found.autocommit, found.info.transaction_status)
        async with found.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(_with_marks(template, args), args)
            return (await cursor.fetchone())[0]
    return fetch_sync(connection, template, args)


def _with_marks(template: str, args: Sequence[str]) -> str:
    """The statement with the marks of psycopg, which go by order; ours are already in it."""
    return template.replace("%", "%%").format(*["%s"] * len(args))


def _check(autocommit: bool, status: int) -> None:
    # A connection that is not in autocommit begins a transaction by itself, with the first statement.
    idle = 0
    if autocommit and status == idle:
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
        # SQLAlchemy begins a transaction with the first statement that goes through it.
        await connection.exec_driver_sql("SELECT 1")
        connection = await connection.get_raw_connection()
    return _innermost(connection)


def _is_of(connection: object, package: str) -> bool:
    kind = type(connection)
    return kind.__module__.partition(".")[0] in {package, f"{package}_binary", f"{package}_c"} or any(
        base.__module__.partition(".")[0] == package for base in kind.__mro__
    )


def _is_async(connection: Any) -> bool:
    return any(base.__name__ == "AsyncConnection" for base in type(connection).__mro__)


def _none_open() -> NotInTransaction:
    return NotInTransaction(
        "this connection has no open transaction; begin one, for instance with "
        "`async with connection.transaction()`"
    )


def _stranger(connection: object) -> ConfigurationError:
    kind = type(connection)
    return ConfigurationError(
        f"{kind.__module__}.{kind.__qualname__} is not a connection to PostgreSQL; give one of asyncpg, "
        "psycopg, psycopg2, SQLAlchemy or Django, or what `transactions.begin()` gives"
    )
