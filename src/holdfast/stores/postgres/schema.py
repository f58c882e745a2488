"""The schema: steps that go forward only, each written once and never changed."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from holdfast.model.errors import SchemaMismatch
from holdfast.stores.postgres.address import Address
from holdfast.stores.postgres.driver import Connection, connect
from holdfast.stores.postgres.faults import translated
from holdfast.stores.postgres.roles import roles_as_sql

CLIENT = 16
"""The schema version that this code is written for. It works with every later one that allows it."""

_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('holdfast.', 0))"
# IF NOT EXISTS would need the right to make schemas even where there is nothing to make.
_SCHEMA = """DO $do$ BEGIN
    IF to_regnamespace('"{schema}"') IS NULL THEN CREATE SCHEMA "{schema}"; END IF;
END $do$"""
_LEDGER = """CREATE TABLE IF NOT EXISTS holdfast.schema (
    version integer PRIMARY KEY,
    name text NOT NULL,
    min_client integer NOT NULL,
    applied timestamptz NOT NULL DEFAULT clock_timestamp()
)"""
_NOTE = "INSERT INTO holdfast.schema (version, name, min_client) VALUES ({version}, '{name}', {min_client})"
_ONCE = """DO $do$ BEGIN IF NOT EXISTS (SELECT FROM holdfast.schema WHERE version = {version}) THEN
EXECUTE $step$
{script}
$step$;
END IF; END $do$;"""
_DAYS = "SELECT holdfast.make_days_v1(holdfast.now_v1())"
_FILE = re.compile(r"(\d{4})_(\w+)\.sql")
_MIN_CLIENT = re.compile(r"^-- min-client: (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Step:
    """One change of the schema; clients older than `min_client` cannot work with it."""

    version: int
    name: str
    min_client: int
    sql: str

    def script(self, address: Address) -> str:
        """The step, and the note that it was applied."""
        note = _NOTE.format(version=self.version, name=self.name, min_client=self.min_client)
        return address.rendered(f"{self.sql.rstrip()}\n{note};")


@lru_cache(maxsize=1)
def steps() -> tuple[Step, ...]:
    """All steps, oldest first."""
    found: list[Step] = []
    for file in (files("holdfast.stores.postgres") / "migrations").iterdir():
        named = _FILE.fullmatch(file.name)
        if named is not None:
            sql = file.read_text(encoding="utf-8")
            least = _MIN_CLIENT.search(sql)
            assert least is not None
            found.append(Step(int(named[1]), file.name.removesuffix(".sql"), int(least[1]), sql))
    return tuple(sorted(found, key=lambda step: step.version))


async def pending(connection: Connection, address: Address) -> list[Step]:
    """The steps that are not applied yet. Raises SchemaMismatch if the schema is too new for this code."""
    version, least = await stored_version(connection, address)
    if least > CLIENT:
        raise SchemaMismatch(
            f"{address.place}: the schema is version {version} and needs Holdfast with schema {least} "
            f"or newer; this one has {CLIENT}: upgrade Holdfast here"
        )
    return [step for step in steps() if step.version > version]


async def stored_version(connection: Connection, address: Address) -> tuple[int, int]:
    """The version that is stored, and the oldest client that it allows; zeros if there is none."""
    table = address.rendered("holdfast.schema")
    if await connection.fetchval("SELECT to_regclass($1)::text", table) is None:
        return 0, 0
    row = await connection.fetchrow(f"SELECT max(version), max(min_client) FROM {table}")
    return row[0] or 0, row[1] or 0


def missing(address: Address, names: list[str]) -> SchemaMismatch:
    return SchemaMismatch(
        f"{address.place}: the schema is not up to date, {', '.join(names)} missing; run: holdfast migrate"
    )


class PostgresMigrations:
    """The schema of one place."""

    def __init__(self, address: Address) -> None:
        self._address = address

    async def pending(self) -> list[str]:
        return [step.name for step in await self._on_connection(pending)]

    async def apply(self) -> list[str]:
        """Applies what is pending, all or nothing. Of several processes one does it, and the others wait."""
        return [step.name for step in await self._on_connection(self._apply)]

    def as_sql(self) -> str:
        """All steps as plain SQL, safe to give to `psql`, also again: what was applied is passed over."""
        address = self._address
        parts = [f"{statement};" for statement in _opening(address)]
        for step in steps():
            once = address.rendered(_ONCE.replace("{version}", str(step.version)))
            parts.append(f"\n-- {step.name}\n{once.replace('{script}', step.script(address))}")
        days = address.rendered(f"\n{_DAYS};")
        return "\n".join(["BEGIN ISOLATION LEVEL READ COMMITTED;", *parts, days, "COMMIT;", ""])

    def roles_as_sql(self, prefix: str) -> str:
        return roles_as_sql(self._address, prefix, [step.sql for step in steps()])

    async def _on_connection(
        self, work: Callable[[Connection, Address], Awaitable[list[Step]]]
    ) -> list[Step]:
        address = self._address
        connection = None
        try:
            connection = await connect(address, command_timeout=None)
            return await work(connection, address)
        except Exception as error:
            raise translated(error, address.place, sent=False) from error
        finally:
            if connection is not None:
                await connection.close()

    async def _apply(self, connection: Connection, address: Address) -> list[Step]:
        if not await pending(connection, address):
            return []  # whoever may not change the schema may still ask for what is there
        async with connection.transaction(isolation="read_committed"):
            # The lock first: creating the same schema twice at once would fail, whatever IF NOT EXISTS says.
            for statement in _opening(address):
                await connection.execute(statement)
            found = await pending(connection, address)
            for step in found:
                await connection.execute(step.script(address))
            await connection.execute(address.rendered(_DAYS))
        return found


def _opening(address: Address) -> list[str]:
    lock, ledger = address.rendered(_LOCK), address.rendered(_LEDGER)
    return [lock, _SCHEMA.replace("{schema}", address.schema), ledger]
