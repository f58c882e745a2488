"""A damaged row of each kind in PostgreSQL: the schema refuses it, or nobody is held up by it."""

import asyncio
import secrets
from collections.abc import Iterator
from urllib.parse import urlsplit

import asyncpg
import pytest

from holdfast.stores import open_store
from tests.hostile.rounds import complaints
from tests.hostile.shop import GROUP, fill, make_shop
from tests.servers.sql import fresh_database

LARGE = ("9223372036854775807", "'-9223372036854775808'::bigint", "99", "NULL")
HOSTILE = {
    "bigint": LARGE,
    "integer": ("2147483647", "-2147483648", "99", "NULL"),
    "smallint": ("99", "-1", "NULL"),
    "boolean": ("NULL", "true", "false"),
    "double precision": ("'NaN'", "'Infinity'", "-5", "NULL"),
    "text": ("''", "E'\\x01\\n'", "repeat('x', 10000)", "NULL"),
    "bytea": ("'\\xff'::bytea", "'[[['::bytea", "''::bytea", "NULL"),
    "uuid": ("gen_random_uuid()", "NULL"),
    "ARRAY": ("ARRAY[NULL, 'a']::text[]", "'{{a,b},{c,d}}'::text[]", "'{}'::text[]", "NULL"),
}
REFUSED = (asyncpg.IntegrityConstraintViolationError, asyncpg.DataError, asyncpg.FeatureNotSupportedError)
KINDS = [
    *("job", "done", "attempt", "key", "worker", "queue", "lock", "lock_line", "lock_token", "schedule"),
    *("event", "event_head", "limits", "gate", "halt", "fair", "link", "day"),
]
COLUMNS = """SELECT column_name, data_type FROM information_schema.columns
    WHERE table_schema = 'holdfast' AND table_name = $1 AND NOT is_identity::boolean
    ORDER BY ordinal_position"""


def at(server: str, database: str) -> str:
    return urlsplit(server)._replace(path=f"/{database}").geturl()


@pytest.fixture(scope="module")
def filled(postgres_server: str) -> Iterator[str]:
    async def prepare(url: str) -> None:
        store = open_store(url)
        assert store.migrations is not None
        await store.migrations.apply()
        await store.close()
        await fill(make_shop(url))

    with fresh_database(postgres_server) as url:
        asyncio.run(prepare(url))
        yield urlsplit(url).path.removeprefix("/")


async def damage(url: str, table: str) -> None:
    """Tries every hostile value in every column, each in the next row of the table."""
    connection = await asyncpg.connect(url)
    try:
        others = f"WHERE name <> '~{GROUP} orders'" if table == "schedule" else ""
        rows = await connection.fetchval(f"SELECT count(*) FROM holdfast.{table} {others}")
        taken = 0
        for column, kind in await connection.fetch(COLUMNS, table):
            for value in HOSTILE[kind] if column != "ns" else ():
                row = f"SELECT ctid FROM holdfast.{table} {others} LIMIT 1 OFFSET {taken % rows}"
                change = f"UPDATE holdfast.{table} SET {column} = {value} WHERE ctid = ({row})"
                try:
                    await connection.execute(change)
                except REFUSED:
                    continue
                taken += 1
    finally:
        await connection.close()


async def copied(server: str, filled: str, name: str) -> None:
    connection = await asyncpg.connect(server)
    try:
        await connection.execute(f"CREATE DATABASE {name} TEMPLATE {filled}")
    finally:
        await connection.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.timeout(180)
def test_damaged_rows_hold_up_nobody(postgres_server: str, filled: str, kind: str) -> None:
    name = f"holdfast_test_{secrets.token_hex(6)}"
    asyncio.run(copied(postgres_server, filled, name))
    url = at(postgres_server, name)
    try:
        asyncio.run(damage(url, kind))
        assert complaints(make_shop(url)) == []
    finally:
        asyncio.run(dropped(postgres_server, name))


async def dropped(server: str, name: str) -> None:
    connection = await asyncpg.connect(server)
    try:
        await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        await connection.close()
