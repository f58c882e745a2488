"""The SQL Server that the environment names, and schemas in it that tests may fill and empty."""

import asyncio
import atexit
import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from urllib.parse import urlsplit

from holdfast.stores.mssql import MssqlStore
from holdfast.stores.mssql.address import Address, is_local, parse
from holdfast.stores.mssql.driver import Connection
from holdfast.stores.mssql.drivers import driver_named
from holdfast.stores.mssql.schema import apply
from holdfast.testing import ManualClock
from tests.mssql.warm import warm
from tests.servers.ltdl import provide_ltdl

SETTING = "HOLDFAST_TEST_SQLSERVER"
URL = os.environ.get(SETTING, "")

_CLOCK = (
    "CREATE TABLE {schema}.test_clock (now bigint NOT NULL)",
    "INSERT INTO {schema}.test_clock (now) VALUES (0)",
    "DROP FUNCTION {schema}.now_v1",
    """CREATE FUNCTION {schema}.now_v1() RETURNS bigint
    AS BEGIN RETURN (SELECT now FROM {schema}.test_clock); END""",
)
_KINDS = {"P": "PROCEDURE", "FN": "FUNCTION", "V": "VIEW", "U": "TABLE", "SO": "SEQUENCE"}
_OBJECTS = """SELECT RTRIM(o.type), o.name FROM sys.objects AS o
    WHERE o.schema_id = SCHEMA_ID('{schema}') AND RTRIM(o.type) IN ('P', 'FN', 'V', 'U', 'SO')
    ORDER BY o.object_id DESC"""
_KEPT = frozenset({"namespace", "step", "test_clock"})


class Place:
    """A schema of the database, made once and removed in the end, with a clock of its own."""

    def __init__(self, url: str, schema: str, *, has_clock: bool) -> None:
        self.url = f"{usable(url)}&schema={schema}&timeout=60"
        self.address = parse(self.url)
        provide_ltdl()
        self.connection = connected(self.address)
        remove(self.connection, schema)
        apply(self.connection, self.address)
        if has_clock:
            for statement in _CLOCK:
                self.connection.execute(statement.format(schema=schema))
        atexit.register(remove, self.connection, schema)

    def clocked(self, clock: ManualClock) -> MssqlStore:
        """A store that goes by this clock, from now on and whenever it is moved."""
        advance = clock.advance

        def tell() -> None:
            self.connection.execute(f"UPDATE {self.address.schema}.test_clock SET now = {clock.now()}")

        def advance_and_tell(by: float) -> None:
            advance(by)
            tell()

        clock.advance = advance_and_tell  # type: ignore[method-assign, assignment]
        tell()
        return MssqlStore.from_url(self.url)

    def empty(self) -> None:
        """Forgets everything that tests have stored."""
        for kind, name in objects(self.connection, self.address.schema):
            if kind == "U" and name not in _KEPT:
                self.connection.execute(f"DELETE FROM {self.address.schema}.{name}")


def place(name: str, *, has_clock: bool = True) -> Place:
    """The schema of this process with that purpose; connections to it are quick from the first call on."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    found = _made(f"hf_{name}_{worker}", has_clock=has_clock)
    with ThreadPoolExecutor(1) as thread:  # whoever asks may have an event loop of its own
        thread.submit(asyncio.run, warm(found.url)).result()
    return found


@lru_cache(maxsize=8)
def _made(schema: str, *, has_clock: bool) -> Place:
    return Place(URL, schema, has_clock=has_clock)


def usable(url: str) -> str:
    """The URL for tests: whoever names a server wants the password sent there, near by also without TLS.

    What the URL says itself counts.
    """
    plain, _, query = url.partition("?")
    parts = urlsplit(plain)
    is_plain = parts.username and is_local(parts.hostname or "")
    usual = ["password_beyond_local=on", *(["encrypt=off"] if is_plain else [])]
    return f"{plain}?{'&'.join([*usual, *filter(None, [query])])}"


def connected(address: Address) -> Connection:
    return driver_named(address.driver).connect(address, None, address.patience)


def objects(connection: Connection, schema: str) -> list[tuple[str, str]]:
    [rows] = connection.execute(_OBJECTS.format(schema=schema))
    return [(kind, name) for kind, name in rows]


def remove(connection: Connection, schema: str) -> None:
    """Drops the schema with all that is in it, if it is there."""
    found = objects(connection, schema)
    for kind, statement in _KINDS.items():
        for its, name in found:
            if its == kind:
                connection.execute(f"DROP {statement} IF EXISTS [{schema}].{name}")
    connection.execute(f"IF SCHEMA_ID('{schema}') IS NOT NULL EXEC('DROP SCHEMA {schema}')")
