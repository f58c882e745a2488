"""The server that everything is measured on, and what it tells of a measurement."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import asyncpg

from benchmarks.engine import Server
from tests.servers.postgres import Postgres
from tests.servers.run import OwnedRun

SETTING = "HOLDFAST_BENCH_POSTGRES"
SETTINGS = {
    "synchronous_commit": "on",
    "fsync": "on",
    "full_page_writes": "on",
    "shared_buffers": "1GB",
    "max_wal_size": "16GB",
    "min_wal_size": "1GB",
    "checkpoint_timeout": "1h",
}
"""Of our own server. No checkpoint falls into one measurement and not into another."""

SPENT = """
SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8,
       (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database())::float8,
       (SELECT coalesce(sum(n_tup_upd + n_tup_del), 0) FROM pg_stat_user_tables)::float8
"""


@dataclass(frozen=True, slots=True)
class Spent:
    """What a database has cost so far. Dead tuples are those made: rows updated or deleted."""

    wal: float
    commits: float
    dead: float


@contextmanager
def provide(named: str | None) -> Iterator[Server]:
    """The server of that URL, which must let us make databases; else one of our own, removed afterwards."""
    if named:
        yield Server(named, facts=asyncio.run(_facts(named)))
        return
    run = OwnedRun()
    try:
        server = Postgres.make(run, "bench")
        for name, value in SETTINGS.items():
            server.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        server.restart()
        yield Server(server.url, server.pid, asyncio.run(_facts(server.url)))
    finally:
        run.close()


@asynccontextmanager
async def database(server: Server) -> AsyncGenerator[str]:
    """The URL of an empty database, made after a checkpoint and dropped afterwards."""
    name = f"holdfast_bench_{secrets.token_hex(6)}"
    async with connected(server.url) as connection:
        await connection.execute("CHECKPOINT")
        await connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        try:
            yield at(server.url, name)
        finally:
            await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def at(url: str, name: str) -> str:
    return urlsplit(url)._replace(path=f"/{name}").geturl()


@asynccontextmanager
async def connected(url: str) -> AsyncGenerator[Any]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close(timeout=10)


async def spent(url: str) -> Spent:
    """Counters arrive when the session that made them has ended, so ask after that."""
    async with connected(url) as connection:
        await _settled(connection)
        return Spent(*await connection.fetchrow(SPENT))


async def _facts(url: str) -> str:
    async with connected(url) as connection:
        shown = {name: await connection.fetchval(f"SHOW {name}") for name in ("server_version", *SETTINGS)}
    return ", ".join([shown.pop("server_version"), *(f"{name}={value}" for name, value in shown.items())])


async def _settled(connection: Any) -> None:
    """Waits until no session but ours is in the database."""
    others = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    async with asyncio.timeout(30):
        while await connection.fetchval(others):  # noqa: ASYNC110  it is the server that knows
            await asyncio.sleep(0.02)
