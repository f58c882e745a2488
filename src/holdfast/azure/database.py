"""What is done in the database once it is there: its tables, and users for those who work on them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final, TypeVar

from holdfast.azure.cloud import Credential
from holdfast.azure.errors import NotProvisioned
from holdfast.azure.users import role_sql, user_sql
from holdfast.azure.wanted import Wanted
from holdfast.model.errors import ConfigurationError, HoldfastError, StoreUnavailable
from holdfast.store import Store
from holdfast.stores import open_store

T = TypeVar("T")

WAITS: Final = (2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 30.0)
"""Seconds between trials: a database that sleeps wakes in a minute, a new firewall rule may take longer."""

_REFUSED = ("40615", "is not allowed to access the server")

OpenStore = Callable[[str], Store]
RunSql = Callable[[Sequence[str]], None]
"""Runs batches of T-SQL as the administrator, in turn; raises StoreUnavailable if they may be run again."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What was done: migrations applied, and identities whose users are there."""

    applied: list[str] = field(default_factory=list[str])
    users: tuple[str, ...] = ()


class Database:
    """A database that is there, or soon will be. Opening it does no I/O, and fails if no store can do it."""

    def __init__(
        self,
        wanted: Wanted,
        run_sql: RunSql,
        *,
        open_store: OpenStore | None = None,
        waits: Sequence[float] = WAITS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._wanted = wanted
        self._run_sql = run_sql
        self._waits = waits
        self._sleep = sleep
        self._store = (open_store or _unmigrated)(wanted.url)
        if self._store.migrations is None:
            raise ConfigurationError(f"the store {wanted.url} has no schema to make", setting="store")
        self._migrations = self._store.migrations

    async def prepare(self) -> Prepared:
        """Brings the tables up to date, and gives each identity its user. Safe to do again."""
        identities = self._wanted.identities
        try:
            applied = await self._patiently("make the tables", self._migrations.apply)
            if identities:
                batches = [role_sql(), *(user_sql(identity) for identity in identities)]
                await self._patiently(
                    f"make users for {', '.join(identities)}",
                    lambda: asyncio.to_thread(self._run_sql, batches),
                )
        finally:
            await self._store.close()
        return Prepared(applied, identities)

    async def _patiently(self, what: str, work: Callable[[], Awaitable[T]]) -> T:
        waits = iter(self._waits)
        while True:
            try:
                return await work()
            except HoldfastError as error:
                pause = next(waits, None) if _may_pass(error) else None
                if pause is None:
                    raise NotProvisioned(self._told(what, error)) from error
            await self._sleep(pause)

    def _told(self, what: str, error: HoldfastError) -> str:
        words = f"all is there in Azure, but could not {what} in {self._wanted.url}: {str(error).rstrip('.')}"
        if _is_refused(error):
            return f"{words}. Run this again with --allow-ip and the address that it names"
        return f"{words}. Run this again to go on"


def run_sql(wanted: Wanted, credential: Credential) -> RunSql:
    """Runs T-SQL in the database through mssql-python, signed in with the credential."""
    try:
        driver: Any = import_module("mssql_python")
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"--identity needs the package {error.name}: pip install 'holdfast[azure,sqlserver]'"
        ) from error

    def run(batches: Sequence[str]) -> None:
        address = f"Server={wanted.host};Database={wanted.database};Encrypt=yes;"
        try:
            with driver.connect(address, autocommit=True, token_provider=credential) as connection:
                for batch in batches:
                    connection.execute(batch).close()
        except driver.OperationalError as error:
            raise StoreUnavailable(str(error)) from error
        except driver.Error as error:
            raise NotProvisioned(str(error)) from error

    return run


def _unmigrated(url: str) -> Store:
    return open_store(url, auto_migrate=False)


def _is_refused(error: HoldfastError) -> bool:
    return any(sign in str(error) for sign in _REFUSED)


def _may_pass(error: HoldfastError) -> bool:
    return isinstance(error, StoreUnavailable) and not _is_refused(error)
