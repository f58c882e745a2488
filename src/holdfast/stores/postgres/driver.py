"""asyncpg, as far as it is used here. It has no types, so what comes from it is `Any`."""

from importlib import import_module
from typing import Any, TypeAlias, TypeGuard
from urllib.parse import urlsplit, urlunsplit

from holdfast.stores.postgres.address import Address

_asyncpg: Any = import_module("asyncpg")

Connection: TypeAlias = Any
"""A connection of asyncpg, or what its pool lends in place of one."""

APPLICATION = "holdfast"

FAULTS: tuple[type[Exception], ...] = (
    OSError,
    TimeoutError,
    EOFError,
    _asyncpg.PostgresError,
    _asyncpg.InterfaceError,
    _asyncpg.InternalClientError,
)
"""All that may be wrong with a server or the way to it."""

LOST: tuple[type[Exception], ...] = (
    OSError,
    TimeoutError,
    EOFError,
    _asyncpg.InterfaceError,
    _asyncpg.InternalClientError,
)
"""What is raised when there is no word from the server."""


def is_connection(found: object) -> TypeGuard[Connection]:
    return isinstance(found, (_asyncpg.Connection, _asyncpg.pool.PoolConnectionProxy))


_turns: dict[str, int] = {}
"""Which server of a URL with several was the last to answer."""


async def connect(address: Address, **settings: Any) -> Connection:
    """A connection to the first server of the URL that answers as wanted, within its share of the time.

    A machine that is gone says nothing, and the driver itself would wait for its word until all time is over.
    So the servers are tried one by one, and next time beginning with another than the one that failed, also
    if the caller was cancelled before it had.
    """
    servers = _servers(address.dsn)
    first: Exception | None = None
    for _ in servers:
        turn = _turns.get(address.dsn, 0)
        share = {"dsn": servers[turn], "timeout": address.patience / len(servers)}
        try:
            return await _asyncpg.connect(**{**_settings(address), **settings, **share})
        except BaseException as error:
            if turn == _turns.get(address.dsn, 0):
                _turns[address.dsn] = (turn + 1) % len(servers)
            if not isinstance(error, FAULTS):
                raise
            first = first or error
    assert first is not None
    raise first


def _servers(dsn: str) -> list[str]:
    """The URL of each server that the URL names."""
    parts = urlsplit(dsn)
    user, at, hosts = parts.netloc.rpartition("@")
    if "," not in hosts:
        return [dsn]
    return [urlunsplit(parts._replace(netloc=f"{user}{at}{host}")) for host in hosts.split(",")]


def _settings(address: Address) -> dict[str, Any]:
    """Settings of the server are left alone behind a pooler, which may refuse them."""
    server = {"application_name": APPLICATION}
    if address.prepared:
        server |= {"default_transaction_isolation": "read committed", "jit": "off"}
    return {
        "dsn": address.dsn,
        "timeout": address.patience,
        "command_timeout": address.patience,
        "statement_cache_size": 200 if address.prepared else 0,
        "max_cached_statement_lifetime": 0,
        "server_settings": server,
    }
