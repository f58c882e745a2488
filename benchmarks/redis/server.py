"""The server that everything is measured on, and what it tells of a measurement."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import redis.asyncio

from benchmarks.engine import Server
from tests.servers.redis import Redis, execute
from tests.servers.redis_binaries import find_redis, find_valkey
from tests.servers.run import OwnedRun

SETTING = "HOLDFAST_BENCH_REDIS"
FUNCTIONS = 7
SETTINGS = {"save": '""', "appendonly": "no"}
"""Of our own server: nothing is written to disk. Redis ships with `appendonly no`, but saves now and then."""


@contextmanager
def provide(named: str | None) -> Iterator[Server]:
    """The server of that URL, whose database must be empty; else one of our own, removed afterwards."""
    if named:
        if keys := execute(named, "DBSIZE"):
            raise SystemExit(f"{SETTING} names a database with {keys} keys, which would be deleted")
        yield Server(named, facts=_facts(named))
        return
    run = OwnedRun()
    try:
        server = Redis.make(run, find_redis(run), "bench", **SETTINGS)
        yield Server(server.url, server.pid, _facts(server.url))
    finally:
        run.close()


@contextmanager
def with_functions(server: Server) -> Iterator[Server]:
    """The server if it knows functions, as Redis 7 does; else a Valkey of our own, removed afterwards."""
    if int(execute(server.url, "INFO", "server")["redis_version"].split(".")[0]) >= FUNCTIONS:
        yield server
        return
    run = OwnedRun()
    try:
        other = Redis.make(run, find_valkey(run), "bench", **SETTINGS)
        yield Server(other.url, other.pid)
    finally:
        run.close()


@asynccontextmanager
async def emptied(server: Server) -> AsyncGenerator[Any]:
    """A client of the database, which has nothing in it before and after."""
    async with redis.asyncio.Redis.from_url(server.url) as client:
        await client.flushdb()
        try:
            yield client
        finally:
            await client.flushdb()


async def memory(client: Any) -> int:
    """Bytes that the server uses for all that it has."""
    used: int = (await client.info("memory"))["used_memory"]
    return used


def _facts(url: str) -> str:
    shown = {name: execute(url, "CONFIG", "GET", name) for name in SETTINGS}
    version = execute(url, "INFO", "server")["redis_version"]
    return ", ".join([version, *(f"{name}={_value(answer)}" for name, answer in shown.items())])


def _value(answer: Any) -> str:
    """redis-py gives the answer of CONFIG GET as a dictionary or as a list."""
    values = list(answer.values()) if isinstance(answer, dict) else list(answer)[1:]
    text = values[0].decode() if isinstance(values[0], bytes) else values[0]
    return text or "no"
