"""Finding the connection inside what callers have: that of a driver, of SQLAlchemy, or of Django."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from holdfast.model.errors import ConfigurationError, NotInTransaction
from holdfast.stores.mssql.database import Transaction
from holdfast.stores.mssql.driver import Fault, Row, Value, bound

_DEPTH = 6
_MARKS = {"mssql_python": "?", "pyodbc": "?", "pytds": "%s", "pymssql": "%s"}
"""How each driver marks a parameter, by the package of its connections."""

_COUNT = "SELECT @@TRANCOUNT"


def fetch_sync(connection: Any, sql: str, args: Sequence[Value]) -> list[list[Row]]:
    """The result sets of a batch, on a blocking connection; NotInTransaction if none is open there."""
    _check_begun(connection)
    found: Any = _innermost(connection)
    if found is None and hasattr(connection, "in_atomic_block"):
        raise _none_open()  # Django's, which connects when it is first used
    mark = _mark(found)
    if found is None or mark is None:
        raise _stranger(connection)
    cursor = found.cursor()
    try:
        cursor.execute(_COUNT)
        # A connection that is not in autocommit begins a transaction by itself, with the first statement.
        if cursor.fetchone()[0] == 0 and _is_autocommit(found):
            raise _none_open()
        statement, kept = bound(sql, args, mark)
        cursor.execute(statement, tuple(_sent(found, value) for value in kept))
        return _result_sets(cursor)
    except Exception as error:
        if _mark(error) is not None:
            raise Fault(str(error), number=getattr(error, "number", None) or None) from error
        raise
    finally:
        cursor.close()


async def fetch(connection: Any, sql: str, args: Sequence[Value]) -> list[list[Row]]:
    """The same on a connection of async code."""
    if isinstance(connection, Transaction):
        return await connection.execute(sql, *args)
    if hasattr(connection, "sync_session"):
        connection = await connection.connection()
    if hasattr(connection, "run_sync"):

        def on(inner: Any) -> list[list[Row]]:
            return fetch_sync(inner, sql, args)

        result: list[list[Row]] = await connection.run_sync(on)
        return result
    return fetch_sync(connection, sql, args)


def _sent(connection: Any, value: Value) -> Any:
    """The value as the driver takes it: pytds takes bytes for text, unless they say that they are none."""
    if isinstance(value, bytes) and _is_of(connection, "pytds"):
        return import_module("pytds").Binary(value)
    return value


def _result_sets(cursor: Any) -> list[list[Row]]:
    found: list[list[Row]] = []
    while True:
        if cursor.description:
            found.append([tuple(row) for row in cursor.fetchall()])
        if not cursor.nextset():
            return found


def _is_autocommit(connection: Any) -> bool:
    for name in ("autocommit_state", "autocommit"):
        told = getattr(connection, name, None)
        if isinstance(told, bool):
            return told
    return False


def _check_begun(connection: Any) -> None:
    """Refuses a connection of SQLAlchemy that has not begun: it would not commit what it knows nothing of."""
    is_core = _is_of(connection, "sqlalchemy") and hasattr(connection, "exec_driver_sql")
    if is_core and not connection.in_transaction():
        raise _none_open()


def _innermost(connection: Any) -> Any:
    """Follows the wrappers of SQLAlchemy and Django to the connection of the driver.

    SQLAlchemy wraps a driver that awaits as one that does not; that wrapper is what blocking code can use.
    """
    for _ in range(_DEPTH):
        if connection is None or _mark(connection) is not None:
            return connection
        inner = getattr(connection, "dbapi_connection", None)
        if inner is None:
            inner = getattr(connection, "connection", None)
        connection = inner() if callable(inner) and not hasattr(inner, "cursor") else inner
    return None


def _mark(connection: Any) -> str | None:
    for package, mark in _MARKS.items():
        if _is_of(connection, package):
            return mark
    return "?" if _is_of(connection, "sqlalchemy") and hasattr(connection, "_connection") else None


def _is_of(connection: object, package: str) -> bool:
    return any(base.__module__.partition(".")[0] == package for base in type(connection).__mro__)


def _none_open() -> NotInTransaction:
    return NotInTransaction(
        "this connection has no open transaction; begin one, or connect without autocommit"
    )


def _stranger(connection: object) -> ConfigurationError:
    kind = type(connection)
    return ConfigurationError(
        f"{kind.__module__}.{kind.__qualname__} is not a connection to SQL Server; give one of mssql-python, "
        "pytds, pyodbc, pymssql, SQLAlchemy or Django, or what `transactions.begin()` gives"
    )
