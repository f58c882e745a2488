"""Connections that are quick from the first call on, also where each session compiles what it calls."""

import asyncio
from uuid import uuid4

from holdfast.model.lifecycle import RETURNED, Ending, State
from holdfast.model.records import Edit, Extension, JobRecord, LockWish, Move, Query, Tick
from holdfast.store import Session
from holdfast.stores import open_store
from holdfast.stores.mssql import shelf
from holdfast.stores.mssql.address import Address, parse
from holdfast.testing.conformance.case import LONG, QUEUE, ended, new_job, wanted, worker_record
from holdfast.testing.conformance.schedules import write

CONNECTIONS = 12
"""More than the workers of any test have at once."""

MOST = 2 * CONNECTIONS
"""How many are kept, to one schema at a time: a server that takes a hundred shall do for three processes."""

_warmed = ""


async def warm(url: str) -> None:
    """Has connections to that database laid up for the sessions of this process; others are let go."""
    global _warmed  # noqa: PLW0603  as the shelves are, it is one for the process
    if url == _warmed:
        return
    if _warmed:
        let_go(parse(_warmed))
    _warmed = url
    shelf.KEPT_SECONDS, shelf.MOST = 3600.0, MOST  # type: ignore[misc]
    store = open_store(url)
    sessions = [await store.connect(f"warm-{uuid4().hex[:12]}") for _ in range(CONNECTIONS)]
    # At once, so that each has a connection of its own.
    await asyncio.gather(*map(_call_all, sessions))
    for session in sessions:
        await session.close()
    await store.close()


def let_go(address: Address) -> None:
    """Closes the connections to that database that no session has."""
    for patience in (address.patience, None):
        while (opened := shelf.shelf_of(address).take(patience)) is not None:
            opened.connection.close()


async def _call_all(session: Session) -> None:
    """What workers, schedulers and callers of the preset do."""
    jobs = session.jobs
    await session.fleet.register(worker_record("w"), LONG)
    await jobs.add([new_job(id=str(uuid4())) for _ in range(4)])
    claimed = (await jobs.tick(Tick(worker="w", seq=1, moves=[], want=wanted(limit=3)))).claimed
    await jobs.extend("w", [Extension(job=job.id, token=job.token, lease=LONG, elapsed=0) for job in claimed])
    await session.fleet.beat("w", LONG)
    await jobs.tick(Tick(worker="w", seq=2, moves=_ends(claimed)))
    await jobs.expired(1)
    for job in await jobs.find(Query(queue=QUEUE)):
        await jobs.history(job.id)
        await jobs.edit(job.id, job.version, Edit(priority=1))
        await jobs.delete(job.id)
    await jobs.count()
    await jobs.prune(0, 10)
    await session.fleet.queues()
    held = await session.locks.acquire(LockWish(name="l", owner="o", ttl=LONG))
    await session.schedules.write([write(jobs=(new_job(id=str(uuid4())),))])
    await session.schedules.due(1)
    await session.schedules.remove("nightly")
    await session.locks.release("l", "o", held.token)
    await session.fleet.retire("w")


def _ends(jobs: list[JobRecord]) -> list[Move]:
    first, second, third = jobs
    start = Move(job=third.id, token=third.token, path=(State.CLAIMED, State.RUNNING))
    return [ended(first), ended(second, RETURNED, Ending.RELEASED), start]
