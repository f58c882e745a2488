"""asyncpg, as far as it is used here. It has no types, so what comes from it is `Any`."""

from importlib import import_module
from typing import Any, TypeAlias, TypeGuard

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


async def connect(address: Address, **settings: Any) -> Connection:
    return await _asyncpg.connect(**{**_settings(address), **settings})


async def open_pool(address: Address) -> Any:
    """A pool that connects when it is asked to, and at no other time: a server that is away is left alone."""
    return await _asyncpg.create_pool(
        **_settings(address), min_size=0, max_size=address.pool, reset=_leave_alone
    )


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


async def _leave_alone(connection: Connection) -> None:
    """Nothing to reset: no call changes its connection, and a reset would cost a round trip for each."""
