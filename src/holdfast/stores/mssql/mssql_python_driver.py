"""mssql-python, as far as it is used here: Microsoft's, on its own ODBC driver. It tells no numbers."""

import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from math import ceil
from typing import Any

from holdfast.model.errors import ConfigurationError
from holdfast.stores.mssql.address import MSSQL_PYTHON, Address
from holdfast.stores.mssql.driver import Connection, Fault, Row, Value, bound
from holdfast.stores.mssql.sockets import Ends, finding, shut

_driver: Any = import_module("mssql_python")
_exceptions: Any = import_module("mssql_python.exceptions")

_FAULTS: tuple[type[Exception], ...] = (_exceptions.Exception, RuntimeError)
_SERVER = "[SQL Server]"
"""What its texts begin with if they are the server's word."""

_ACCESS_TOKEN = 1256
_RESTED = 5.0
"""Seconds of rest after which a connection is asked whether it still is one."""

# Without sizes each length of a text would be another statement to the server, and a long one three calls.
_SIZES: dict[type, tuple[int, int, int]] = {
    str: (_driver.SQL_WVARCHAR, 0, 0),
    int: (_driver.SQL_BIGINT, 19, 0),
    float: (_driver.SQL_DOUBLE, 15, 0),
    bool: (_driver.SQL_BIT, 1, 0),
    bytes: (_driver.SQL_VARBINARY, 0, 0),
}
_LOST = frozenset(
    {
        "Client unable to establish connection",
        "Communication link failure",
        "Connection failure during transaction",
        "Connection not open",
        "Connection operation failed",
        "Connection timeout expired",
        "Operation canceled",
        "Server rejected the connection",
        "Statement completion unknown",
        "Timeout expired",
    }
)


class MssqlPythonConnection(Connection):
    """One cursor for statements with parameters, which it prepares, and one for those without.

    A cursor that goes from the one to the other makes another call to forget what it has prepared.
    """

    def __init__(self, raw: Any, ends: Ends | None) -> None:
        self._raw = raw
        self._ends = ends
        self._plain = raw.cursor()
        self._preparing = raw.cursor()

    @property
    def raw(self) -> Any:
        return self._raw

    def execute(self, sql: str, parameters: Sequence[Value] = ()) -> list[list[Row]]:
        text, kept = bound(sql, parameters, "?") if parameters else (sql, [])
        cursor = self._preparing if kept else self._plain
        try:
            if kept:
                cursor.setinputsizes([_SIZES[type(value)] for value in kept])
                cursor.execute(text, kept)
            else:
                cursor.execute(text)
            return _row_sets(cursor)
        except _FAULTS as error:
            raise _fault(error, sent=True) from error

    def is_alive(self, rested: float) -> bool:
        if rested < _RESTED:
            return True
        try:
            self.execute("SELECT 1")
        except Fault:
            return False
        return True

    def interrupt(self) -> None:
        if self._ends is not None:
            shut(self._ends)

    def close(self) -> None:
        with suppress(*_FAULTS):
            self._raw.close()


class MssqlPython:
    """Opens connections with mssql-python."""

    name = MSSQL_PYTHON

    def __init__(self) -> None:
        # Ours is the only pool: its own would give back connections that somebody else has set up.
        _driver.pooling(enabled=False)

    def connect(self, address: Address, token: str | None, patience: float | None) -> Connection:
        _knock(address)
        try:
            with finding(address.port) as found:
                raw = _driver.connect(
                    _connection_string(address),
                    autocommit=True,
                    timeout=ceil(address.patience),
                    native_uuid=False,
                    attrs_before={} if token is None else {_ACCESS_TOKEN: _packed(token)},
                )
        except _FAULTS as error:
            if "Failed to load the driver" in str(error):
                raise ConfigurationError(
                    "mssql-python cannot load its driver: install the system library libltdl (on Debian: "
                    "apt-get install libltdl7), or use mssql+pytds://",
                    setting="store",
                ) from error
            raise _fault(error, sent=False) from error
        connection = MssqlPythonConnection(raw, found.ends)
        try:
            if patience is not None:
                raw.timeout = ceil(patience)
            connection.prepare(patience)
        except BaseException:
            connection.close()
            raise
        return connection


def _knock(address: Address) -> None:
    """Finds out that nobody listens: the driver would try until all time is over, and say a number."""
    try:
        socket.create_connection((address.host, address.port), address.patience).close()
    except OSError as error:
        raise Fault(str(error) or type(error).__name__, is_lost=True, sent=False) from error


def _connection_string(address: Address) -> str:
    parts = {
        "Server": f"{address.host},{address.port}",
        "Database": address.database,
        "Encrypt": "yes" if address.encrypt else "no",
        "TrustServerCertificate": "yes" if address.trusts_certificate else "no",
        # A connection that ends is ours to replace.
        "ConnectRetryCount": "0",
        "KeepAlive": "10",
        "KeepAliveInterval": "1",
    }
    if address.user:
        parts |= {"UID": address.user, "PWD": address.password}
    return ";".join(f"{name}={_quoted(value)}" for name, value in parts.items())


def _quoted(value: str) -> str:
    return "{" + value.replace("}", "}}") + "}"


def _packed(token: str) -> bytes:
    """The token as the driver wants it: its length, then UTF-16."""
    encoded = token.encode("utf-16-le")
    return struct.pack("<I", len(encoded)) + encoded


def _row_sets(cursor: Any) -> list[list[Row]]:
    found: list[list[Row]] = []
    while True:
        if cursor.description:
            found.append([tuple(row) for row in cursor.fetchall()])
        if not cursor.nextset():
            return found


def _fault(error: Exception, *, sent: bool) -> Fault:
    state = str(getattr(error, "driver_error", "") or "")
    text = str(getattr(error, "ddbc_error", "") or error).removeprefix("[Microsoft]")
    is_servers = text.startswith(_SERVER)
    is_lost = not is_servers and (state in _LOST or not state)
    return Fault(
        text.removeprefix(_SERVER),
        state=state,
        is_lost=is_lost,
        sent=sent and (is_servers or is_lost),
    )
