"""The schema: steps that go forward only, each written once and never changed."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from holdfast.model.errors import SchemaMismatch
from holdfast.stores.mssql.address import Address
from holdfast.stores.mssql.database import Database
from holdfast.stores.mssql.driver import Connection
from holdfast.stores.mssql.queries import rendered
from holdfast.stores.mssql.roles import roles_as_sql

CLIENT = 16
"""The schema version that this code is written for. It works with every later one that allows it."""

_LOCK = """DECLARE @got int;
EXEC @got = sp_getapplock
    @Resource = 'holdfast.schema', @LockMode = 'Exclusive', @LockOwner = 'Transaction', @LockTimeout = 600000;
IF @got < 0
    THROW 50001, 'the schema is being changed by somebody else', 1;"""
_SCHEMA = "IF SCHEMA_ID('{schema}') IS NULL EXEC('CREATE SCHEMA [{schema}]');"
_LEDGER = """IF OBJECT_ID('holdfast.step') IS NULL
CREATE TABLE holdfast.step (
    version int NOT NULL,
    name varchar(200) NOT NULL,
    min_client int NOT NULL,
    applied datetime2 NOT NULL DEFAULT SYSUTCDATETIME(),
    CONSTRAINT holdfast_step_pkey PRIMARY KEY CLUSTERED (version)
);"""
_NOTE = "INSERT INTO holdfast.step (version, name, min_client) VALUES ({version}, '{name}', {min_client});"
_UNLESS = "IF EXISTS (SELECT 1 FROM holdfast.step AS s WHERE s.version = {version}) SET NOEXEC ON;"
_STORED = "SELECT version, min_client FROM holdfast.step ORDER BY version"
_IS_THERE = "SELECT OBJECT_ID('holdfast.step')"
# Procedures keep the first two for ever, and a filtered index needs them; sqlcmd begins without one of them.
_SETTINGS = "SET ANSI_NULLS, QUOTED_IDENTIFIER, XACT_ABORT ON;"
_FILE = re.compile(r"(\d{4})_(\w+)\.sql")
_MIN_CLIENT = re.compile(r"^-- min-client: (\d+)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Step:
    """One change of the schema; clients older than `min_client` cannot work with it."""

    version: int
    name: str
    min_client: int
    batches: tuple[str, ...]

    @property
    def note(self) -> str:
        """Says that it was applied."""
        return _NOTE.format(version=self.version, name=self.name, min_client=self.min_client)


@lru_cache(maxsize=1)
def steps() -> tuple[Step, ...]:
    """All steps, oldest first."""
    found: list[Step] = []
    for file in (files("holdfast.stores.mssql") / "migrations").iterdir():
        named = _FILE.fullmatch(file.name)
        if named is not None:
            sql = file.read_text(encoding="utf-8")
            least = _MIN_CLIENT.search(sql)
            assert least is not None
            parts = re.split(r"^GO$", sql.replace(least[0], "", 1), flags=re.MULTILINE)
            batches = tuple(part.strip() for part in parts if part.strip())
            found.append(Step(int(named[1]), file.name.removesuffix(".sql"), int(least[1]), batches))
    return tuple(sorted(found, key=lambda step: step.version))


def pending(connection: Connection, address: Address) -> list[Step]:
    """The steps that are not applied yet. Raises SchemaMismatch if the schema is too new for this code."""
    known = stored(connection, address)
    least = max(known.values(), default=0)
    if least > CLIENT:
        raise SchemaMismatch(
            f"{address.place}: the schema is version {max(known)} and needs Holdfast with schema {least} "
            f"or newer; this one has {CLIENT}: upgrade Holdfast here"
        )
    return [step for step in steps() if step.version not in known]


def stored(connection: Connection, address: Address) -> dict[int, int]:
    """The versions that are applied, and the oldest client that each allows."""
    [[[there]]] = connection.execute(rendered(_IS_THERE, address))
    if there is None:
        return {}
    [rows] = connection.execute(rendered(_STORED, address))
    return {int(version): int(least) for version, least in rows}


def missing(address: Address, names: list[str]) -> SchemaMismatch:
    return SchemaMismatch(
        f"{address.place}: the schema is not up to date, {', '.join(names)} missing; run: holdfast migrate"
    )


class MssqlMigrations:
    """The schema of one place."""

    def __init__(self, address: Address) -> None:
        self._address = address

    async def pending(self) -> list[str]:
        return [step.name for step in await self._on_connection(pending, writes=False)]

    async def apply(self) -> list[str]:
        """Applies what is pending, all or nothing. Of several processes one does it, and the others wait."""
        return [step.name for step in await self._on_connection(apply, writes=True)]

    def as_sql(self) -> str:
        """All steps as a script for `sqlcmd`, safe to run again: what was applied is passed over.

        Each is a transaction, so that a run that was cut short leaves none half done.
        """
        address = self._address
        parts = [
            _SETTINGS,
            _SCHEMA.replace("{schema}", address.schema),
            rendered(_LEDGER, address),
        ]
        for step in steps():
            parts.append(f"-- {step.name}\n{rendered(_UNLESS.format(version=step.version), address)}")
            inside = [rendered(batch, address) for batch in (*step.batches, step.note)]
            parts += ["BEGIN TRANSACTION;", *inside, "COMMIT TRANSACTION;", "SET NOEXEC OFF;"]
        return "\nGO\n\n".join([*parts, ""])

    def roles_as_sql(self, prefix: str) -> str:
        return roles_as_sql(self._address.schema, prefix)

    async def _on_connection(
        self, work: Callable[[Connection, Address], list[Step]], *, writes: bool
    ) -> list[Step]:
        database = Database(self._address)
        try:
            return await database.run(
                lambda connection: work(connection, self._address), writes=writes, is_long=True
            )
        finally:
            await database.close()


def apply(connection: Connection, address: Address) -> list[Step]:
    """Applies what is pending, all or nothing; what that was."""
    if not pending(connection, address):
        return []  # whoever may not change the schema may still ask for what is there
    connection.begin()
    connection.execute(rendered(_LOCK, address))
    connection.execute(_SCHEMA.replace("{schema}", address.schema))
    connection.execute(rendered(_LEDGER, address))
    found = pending(connection, address)
    for step in found:
        for batch in (*step.batches, step.note):
            connection.execute(rendered(batch, address))
    connection.commit()
    return found
