"""An application on a schema of its own, and a ledger beside it for effects."""

import asyncio
import secrets
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import psycopg

from holdfast import Holdfast
from holdfast.stores.postgres import PostgresStore

SCHEMA = "shop"


@lru_cache(maxsize=8)
def _make_schema(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute(PostgresStore.from_url(f"{database}?schema={SCHEMA}").migrations.as_sql())
        connection.execute("CREATE TABLE ledger (shop text NOT NULL, entry text NOT NULL)")


@dataclass
class Shop:
    """A namespace that only one test has."""

    database: str
    name: str
    app: Holdfast

    def pay(self, entry: object) -> str:
        """The statement of an effect."""
        return f"INSERT INTO public.ledger VALUES ('{self.name}', '{entry}')"

    async def query(self, sql: str) -> list[Any]:
        return await asyncio.to_thread(self._query, sql)

    async def ledger(self) -> list[str]:
        rows = await self.query(f"SELECT entry FROM public.ledger WHERE shop = '{self.name}' ORDER BY 1")
        return [entry for (entry,) in rows]

    async def outcomes(self, job: Any) -> list[str]:
        return [attempt.outcome for attempt in await self.app.history(job.id)]

    def _query(self, sql: str) -> list[Any]:
        with psycopg.connect(self.database) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []


def open_shop(database: str, options: str = "", **settings: Any) -> Shop:
    _make_schema(database)
    name = f"n{secrets.token_hex(6)}"
    given: dict[str, Any] = {"poll_seconds": 0.1, "reclaim_seconds": 0.1, "kill_seconds": 0.5, **settings}
    return Shop(database, name, Holdfast(f"{database}?schema={SCHEMA}{options}", namespace=name, **given))
