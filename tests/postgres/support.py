"""A PostgreSQL store whose clock moves only when told to."""

from functools import lru_cache
from typing import Any

import psycopg

from holdfast.stores.postgres import PostgresStore
from holdfast.testing import ManualClock

CLOCK = """
    CREATE TABLE {schema}.test_clock (now bigint NOT NULL);
    INSERT INTO {schema}.test_clock VALUES (0);
    CREATE OR REPLACE FUNCTION {schema}.now_v1() RETURNS bigint LANGUAGE sql VOLATILE
    AS $$ SELECT now FROM {schema}.test_clock $$
"""


class Place:
    """A schema of a database, made once, with a clock of its own."""

    def __init__(self, url: str, schema: str, options: str = "") -> None:
        self.schema = schema
        self.url = f"{url}?schema={schema}{options}"
        self.connection: psycopg.Connection[Any] = psycopg.connect(url, autocommit=True)
        script = PostgresStore.from_url(self.url).migrations.as_sql()
        self.connection.execute(script + CLOCK.format(schema=schema))

    def clocked(self, clock: ManualClock) -> PostgresStore:
        """A store that goes by this clock, from now on and whenever it is moved."""
        advance = clock.advance

        def tell() -> None:
            self.connection.execute(f"UPDATE {self.schema}.test_clock SET now = {clock.now()}")

        def advance_and_tell(by: float) -> None:
            advance(by)
            tell()

        clock.advance = advance_and_tell  # type: ignore[method-assign, assignment]
        tell()
        return PostgresStore.from_url(self.url)

    def empty(self) -> None:
        """Forgets everything that tests have stored."""
        tables = ["job", "lease", "done", "attempt", "key", "tally", "worker", "queue", "standing"]
        tables += ["outbox", "event", "event_head", "event_floor"]
        tables += ["flowing", "limits", "gate", "behind", "link", "halt", "fair", "note"]
        names = ", ".join(f"{self.schema}.{table}" for table in tables)
        self.connection.execute(f"TRUNCATE {names}")


@lru_cache(maxsize=8)
def place(url: str, schema: str, options: str = "") -> Place:
    return Place(url, schema, options)
