"""What is done in the database once it is there: its tables, and users for those who work on them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from holdfast.azure.users import role_sql, user_sql
from holdfast.azure.wanted import Rule, Wanted, is_allowed
from holdfast.model.errors import (
    ConfigurationError,
    HoldfastError,
    NotProvisioned,
    OutcomeUnknown,
    StoreUnavailable,
)
from holdfast.store import Store
from holdfast.stores import open_store

T = TypeVar("T")

WAITS: Final = (2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 30.0)
"""Seconds between trials: a database that sleeps wakes in a minute, a new firewall rule may take longer."""

_REFUSED = re.compile(r"(?:IP address .([0-9.]+).)? is not allowed to access the server")

OpenStore = Callable[[str], Store]
RunSql = Callable[[Sequence[str]], Awaitable[None]]
"""Runs batches of T-SQL as the administrator, one after the other. What it raises is as a store raises it."""


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
                    lambda: self._run_sql(batches),
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
                pause = next(waits, None) if _may_pass(error, self._wanted.rules) else None
                if pause is None:
                    raise NotProvisioned(self._told(what, error)) from error
            await self._sleep(pause)

    def _told(self, what: str, error: HoldfastError) -> str:
        words = f"all is there in Azure, but could not {what} in {self._wanted.url}: {str(error).rstrip('.')}"
        if _is_refused(error):
            return f"{words}. Run this again with --allow-ip and the address that it names"
        return f"{words}. Run this again to go on"


def run_sql(wanted: Wanted) -> RunSql:
    """Runs T-SQL in the database as the store itself does, signed in without a password."""
    from holdfast.stores.mssql.address import parse  # noqa: PLC0415  a driver, which not everybody needs
    from holdfast.stores.mssql.connecting import Connecting  # noqa: PLC0415
    from holdfast.stores.mssql.database import Database as Connections  # noqa: PLC0415

    address = parse(wanted.url)
    connecting = Connecting(address)

    async def run(batches: Sequence[str]) -> None:
        connections = Connections(address, connecting)
        try:
            for batch in batches:
                await connections.execute(batch, writes=True)
        finally:
            await connections.close()

    return run


def _unmigrated(url: str) -> Store:
    return open_store(url, auto_migrate=False)


def _is_refused(error: HoldfastError) -> bool:
    return _REFUSED.search(str(error)) is not None


def _may_pass(error: HoldfastError, rules: Sequence[Rule]) -> bool:
    """Whether the same may work a little later; nothing that is done here harms when it is done twice."""
    refused = _REFUSED.search(str(error))
    if refused is None:
        return isinstance(error, StoreUnavailable | OutcomeUnknown)
    return refused[1] is not None and any(is_allowed(refused[1], rule) for rule in rules)
