"""What tests of the Redis store share."""

import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from holdfast.model.records import JobRecord, Move, Tick
from holdfast.stores.redis import RedisStore
from holdfast.stores.redis.address import parse
from holdfast.stores.redis.finder import Finder
from holdfast.stores.redis.store import RedisSession
from holdfast.testing.conformance.case import LONG, ended, wanted, worker_record

ANN = "ann"


async def told(url: str, *command: object) -> Any:
    """What a server answers to one command."""
    wire = await Finder(parse(url)).open()
    try:
        return await wire.ask(*command)
    finally:
        await wire.end()


async def emptied(url: str) -> None:
    """Removes everything from a database of tests."""
    await told(url, "FLUSHDB")


@asynccontextmanager
async def opened(
    url: str, namespace: str = "", clock: Callable[[], int] | None = None
) -> AsyncGenerator[RedisSession]:
    """A session of the bare store, with a worker that is registered, in a namespace of its own."""
    session = await RedisStore(parse(url), clock=clock).connect(namespace or secrets.token_hex(6))
    try:
        await session.fleet.register(worker_record(ANN), LONG)
        yield session
    finally:
        await session.close()


def claiming(seq: int = 1, limit: int = 1, repeat: bool = False, lease: int = LONG) -> Tick:
    return Tick(worker=ANN, seq=seq, moves=[], want=wanted(limit=limit, lease=lease), repeat=repeat)


def moving(seq: int, *moves: Move) -> Tick:
    return Tick(worker=ANN, seq=seq, moves=list(moves))


def completing(seq: int, *jobs: JobRecord, **fields: Any) -> Tick:
    return moving(seq, *(ended(job, **fields) for job in jobs))
