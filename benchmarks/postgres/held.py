"""Claims while somebody holds a transaction open, so that no trace of claimed jobs can be cleaned away."""

import asyncio
import statistics
import time
from contextlib import AsyncExitStack

from benchmarks.case import P50, P99, Figures, Place
from benchmarks.plan import Plan
from benchmarks.postgres.growth import ends
from benchmarks.postgres.server import connected, database
from benchmarks.sides.flat import BATCH, LEASE, new_job
from holdfast.engine.identity import worker_record
from holdfast.model.records import JobRecord, Tick, Want
from holdfast.store import Session
from holdfast.stores import open_store

JOBS = "jobs"
PERIOD = 0.05
LAST = 4
"""The last of so many parts of the time is looked at."""


def free(plan: Plan, place: Place) -> Figures:
    return asyncio.run(_measured(place, plan.pg_held_seconds, is_held=False))


def held(plan: Plan, place: Place) -> Figures:
    return asyncio.run(_measured(place, plan.pg_held_seconds, is_held=True))


async def _measured(place: Place, seconds: float, *, is_held: bool) -> Figures:
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(database(place.server))
        store = open_store(url, auto_migrate=True)
        stack.push_async_callback(store.close)
        session = await store.connect("default")
        stack.push_async_callback(session.close)
        if is_held:
            other = await stack.enter_async_context(connected(url))
            await stack.enter_async_context(other.transaction(isolation="repeatable_read"))
            await other.fetchval("SELECT count(*) FROM holdfast.job")
        took = await _claim(session, seconds)
    hundredths = statistics.quantiles(took[-len(took) // LAST :], n=100, method="inclusive")
    return {P50: hundredths[49], P99: hundredths[98], JOBS: len(took) * BATCH}


async def _claim(session: Session, seconds: float) -> list[float]:
    """Adds a batch and works one off in each period; how long each tick took, in ms."""
    worker = worker_record(("default",), frozenset({"noop_async"}), BATCH)
    await session.fleet.register(worker, LEASE)
    want = Want(queues=("default",), tasks=frozenset({"noop_async"}), limit=BATCH, lease=LEASE)
    claimed: list[JobRecord] = []
    took: list[float] = []
    begun = time.perf_counter()
    while (now := time.perf_counter()) < begun + seconds:
        await session.jobs.add([new_job() for _ in range(BATCH)])
        left = time.perf_counter()
        tick = Tick(worker=worker.id, seq=len(took) + 1, moves=ends(claimed), want=want)
        claimed = (await session.jobs.tick(tick)).claimed
        took.append((time.perf_counter() - left) * 1e3)
        await asyncio.sleep(max(0.0, now + PERIOD - time.perf_counter()))
    return took
