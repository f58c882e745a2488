"""Which database a URL names, and which one a connection is to, as far as both can be told.

Drivers are asked by what they have, not by their types: none of them need be installed.
"""

import contextlib
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit

Database = tuple[str, str, str]
"""Kind, server with port, and name."""

_POSTGRES = ("postgresql", "postgres")
_LOCAL = {"127.0.0.1", "::1", "localhost", ""}


def named_database(url: str) -> Database | None:
    """The database of a store's URL."""
    if url.startswith("sqlite:///"):
        return "sqlite", "", str(Path(unquote(url.removeprefix("sqlite:///").partition("?")[0])).resolve())
    try:
        parts = urlsplit(url)
        if parts.scheme in _POSTGRES:
            return "postgresql", _server(parts.hostname, parts.port), unquote(parts.path.strip("/"))
    except ValueError:
        return None
    return None


def database_of(connection: Any) -> Database | None:
    """The database of a connection of sqlite3, psycopg, asyncpg, or SQLAlchemy or Django on top of them."""
    for plain in _under(connection):
        with contextlib.suppress(Exception):  # whatever a driver does not tell is not known
            if (found := _sqlite(plain) or _psycopg(plain) or _asyncpg(plain) or _session(plain)) is not None:
                return found
    return None


def _under(connection: Any) -> list[Any]:
    """The connection, and what is below it."""
    found = [connection]
    for name in ("sync_connection", "connection", "driver_connection", "dbapi_connection", "_connection"):
        for each in list(found):
            with contextlib.suppress(Exception):
                if (inner := getattr(each, name, None)) is not None and not callable(inner):
                    found.append(inner)
    return found


def _sqlite(connection: Any) -> Database | None:
    if type(connection).__module__.partition(".")[0] != "sqlite3":
        return None
    for _, name, file in connection.execute("PRAGMA database_list"):
        if name == "main" and file:
            return "sqlite", "", str(Path(file).resolve())
    return None


def _psycopg(connection: Any) -> Database | None:
    info = getattr(connection, "info", None)
    if info is None or not hasattr(info, "dbname"):
        return None
    return "postgresql", _server(info.host, info.port), info.dbname


def _asyncpg(connection: Any) -> Database | None:
    address: Any = getattr(connection, "_addr", None)
    params: Any = getattr(connection, "_params", None)
    if params is None or not isinstance(address, tuple):
        return None
    host, port = cast("tuple[str, int]", address)
    return "postgresql", _server(host, port), params.database


def _session(connection: Any) -> Database | None:
    """A session of SQLAlchemy takes its connection when it needs one, but knows from where."""
    bind = getattr(connection, "get_bind", None)
    if bind is None:
        return None
    url = bind().engine.url
    if url.drivername.startswith(_POSTGRES):
        return "postgresql", _server(url.host, url.port), url.database
    return ("sqlite", "", str(Path(url.database).resolve())) if url.drivername.startswith("sqlite") else None


def _server(host: str | None, port: int | None) -> str:
    known = host or ""
    return f"{'local' if known in _LOCAL else known}:{port or 5432}"
