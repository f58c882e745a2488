"""The schema: steps that go forward only, each written once and never changed."""

import asyncio
import re
import sqlite3
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from holdfast.model.errors import SchemaMismatch
from holdfast.stores.sqlite.address import Address
from holdfast.stores.sqlite.connection import opened
from holdfast.stores.sqlite.statements import prefixed

CLIENT = 5
"""The schema version that this code is written for. It works with every later one that allows it."""

_LEDGER = """CREATE TABLE IF NOT EXISTS holdfast_schema (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    min_client INTEGER NOT NULL,
    applied TEXT NOT NULL
)"""
_NOTE = (
    "INSERT INTO holdfast_schema (version, name, min_client, applied) "
    "VALUES ({version}, '{name}', {min_client}, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))"
)
_FILE = re.compile(r"(\d{4})_(\w+)\.sql")
_MIN_CLIENT = re.compile(r"^-- min-client: (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Step:
    """One change of the schema; clients older than `min_client` cannot work with it."""

    version: int
    name: str
    min_client: int
    sql: str

    def statements(self, prefix: str) -> list[str]:
        """The step as single statements, the last of which notes that it was applied."""
        note = _NOTE.format(version=self.version, name=self.name, min_client=self.min_client)
        return [prefixed(statement, prefix) for statement in (*_split(self.sql), note)]


@lru_cache(maxsize=1)
def steps() -> tuple[Step, ...]:
    """All steps, oldest first."""
    found: list[Step] = []
    for file in (files("holdfast.stores.sqlite") / "migrations").iterdir():
        named = _FILE.fullmatch(file.name)
        if named is not None:
            sql = file.read_text(encoding="utf-8")
            least = _MIN_CLIENT.search(sql)
            assert least is not None
            found.append(Step(int(named[1]), file.name.removesuffix(".sql"), int(least[1]), sql))
    return tuple(sorted(found, key=lambda step: step.version))


def pending(connection: sqlite3.Connection, address: Address) -> list[Step]:
    """The steps that are not applied yet. Raises SchemaMismatch if the schema is too new for this code."""
    version, least = stored_version(connection, address)
    if least > CLIENT:
        raise SchemaMismatch(
            f"{address.path}: the schema is version {version} and needs Holdfast with schema {least} "
            f"or newer; this one has {CLIENT}: upgrade Holdfast here"
        )
    return [step for step in steps() if step.version > version]


def stored_version(connection: sqlite3.Connection, address: Address) -> tuple[int, int]:
    """The version that is stored, and the oldest client that it allows; zeros if there is none."""
    table = prefixed("holdfast_schema", address.prefix)
    if not connection.execute(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)
    ).fetchone():
        return 0, 0
    version, least = connection.execute(f"SELECT max(version), max(min_client) FROM {table}").fetchone()
    return version or 0, least or 0


def apply(connection: sqlite3.Connection, address: Address) -> list[str]:
    """Applies what is pending, all or nothing; the names of the steps. Of several processes one does it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(prefixed(_LEDGER, address.prefix))
        applied = pending(connection, address)
        for step in applied:
            for statement in step.statements(address.prefix):
                connection.execute(statement)
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
    return [step.name for step in applied]


def missing(address: Address, names: list[str]) -> SchemaMismatch:
    return SchemaMismatch(
        f"{address.path}: the schema is not up to date, {', '.join(names)} missing; run: holdfast migrate"
    )


def as_sql(prefix: str) -> str:
    """All steps as plain SQL, safe to give to `sqlite3 FILE`."""
    lines = ["PRAGMA journal_mode = WAL;", "BEGIN IMMEDIATE;", prefixed(_LEDGER, prefix) + ";"]
    for step in steps():
        lines += [f"\n-- {step.name}", *(f"{statement};" for statement in step.statements(prefix))]
    return "\n".join([*lines, "COMMIT;", ""])


def _split(sql: str) -> list[str]:
    found: list[str] = []
    gathered = ""
    for line in sql.splitlines(keepends=True):
        if line.startswith("--") and not gathered:
            continue
        gathered += line
        if sqlite3.complete_statement(gathered):
            if gathered.strip():
                found.append(gathered.strip().rstrip(";"))
            gathered = ""
    return [statement for statement in found if statement]


class SqliteMigrations:
    """The schema of one file."""

    def __init__(self, address: Address) -> None:
        self._address = address

    async def pending(self) -> list[str]:
        return await asyncio.to_thread(self._pending)

    async def apply(self) -> list[str]:
        return await asyncio.to_thread(self._apply)

    def as_sql(self) -> str:
        return as_sql(self._address.prefix)

    def _pending(self) -> list[str]:
        if not self._address.path.exists():
            return [step.name for step in steps()]
        with opened(self._address) as connection:
            return [step.name for step in pending(connection, self._address)]

    def _apply(self) -> list[str]:
        with opened(self._address) as connection:
            return apply(connection, self._address)
