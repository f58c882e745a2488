"""Claims from a database with much history and many future jobs, and while a day of history is dropped."""

import asyncio
import time
from statistics import median
from typing import Any

from benchmarks.case import Figures, Place
from benchmarks.plan import Plan
from benchmarks.postgres.server import at, connected, database
from benchmarks.sides.flat import ADDED, BATCH, LEASE, claim, new_job
from holdfast.engine.identity import worker_record
from holdfast.model.lifecycle import SUCCEEDED, Ending
from holdfast.model.records import JobRecord, Move, Tick, Want
from holdfast.store import JobStore, Session
from holdfast.stores import open_store

DROPPED = "jobs dropped"
DROP_TIME = "drop ms"
TRIED = "tries"
PAUSE = "longest pause ms"
PAUSE_BEFORE = "longest pause before ms"
TICK = "median tick ms"

DAY = 86_400_000_000
DAYS = 10
PATIENCE = 600
TRIES = 50
BEFORE = 1.0
"""Seconds of claiming before the day is dropped, to compare with."""

FINISHED = """
INSERT INTO holdfast.done (ns, id, task, queue, payload, state, priority, due, created, started, finished,
                           run, failures, lost, suspect, version, token, ran_by, cancel_asked)
SELECT $1, (lpad(to_hex(t / 1000), 12, '0') || '70008' || lpad(to_hex(n), 15, '0'))::uuid, 'noop_async',
       'default', '{"number":1}', 3, 0, t, t, t, t + 1000, 1, 0, 0, false, 3, t, 'a-worker-of-long-ago', false
FROM generate_series(0, $3::bigint - 1) AS n
CROSS JOIN LATERAL (SELECT $2::bigint + n * ($4::bigint / $3) AS t) AS at
"""
FUTURE = """
INSERT INTO holdfast.job (ns, id, task, queue, payload, priority, due, created, ready)
SELECT $1, (lpad(to_hex($2::bigint / 1000), 12, '0') || '70009' || lpad(to_hex(n), 15, '0'))::uuid,
       'noop_async', 'default', '{"number":1}', 0, $2 + 10 * 86400000000 + n, $2, false
FROM generate_series(0, $3::bigint - 1) AS n
"""


def _name(place: Place) -> str:
    return f"holdfast_{place.shared.name.replace('-', '_')}"


def _url(place: Place) -> str:
    return at(place.server.url, _name(place))


def prepare(plan: Plan, place: Place) -> None:
    asyncio.run(_prepare(plan, place))


def clean(place: Place) -> None:
    async def dropped() -> None:
        async with connected(place.server.url) as connection:
            await connection.execute(f"DROP DATABASE IF EXISTS {_name(place)} WITH (FORCE)")

    asyncio.run(dropped())


def empty(plan: Plan, place: Place) -> Figures:
    async def measured() -> Figures:
        async with database(place.server) as url:
            return await claim(url, plan.pg_claims)

    return asyncio.run(measured())


def big(plan: Plan, place: Place) -> Figures:
    return asyncio.run(claim(_url(place), plan.pg_claims))


def drop(plan: Plan, place: Place) -> Figures:
    """Drops the oldest day while claims go on; what is compared is the longest time between two of them."""
    return asyncio.run(_drop(_url(place), plan.pg_claims))


async def _prepare(plan: Plan, place: Place) -> None:
    async with connected(place.server.url) as connection:
        await connection.execute(f"CREATE DATABASE {_name(place)} TEMPLATE template0")
    url = _url(place)
    store = open_store(url, auto_migrate=True)
    session = await store.connect("default")
    await session.close()
    await store.close()
    async with connected(url) as connection:
        await _plant(connection, plan)


async def _plant(connection: Any, plan: Plan) -> None:
    ns = await connection.fetchval("SELECT holdfast.namespace_v1('default')")
    now = time.time_ns() // 1_000
    today = now - now % DAY
    each = plan.pg_finished // DAYS
    for ago in range(DAYS, 0, -1):
        await connection.execute("SELECT holdfast.make_days_v1($1)", today - ago * DAY)
        await connection.execute(FINISHED, ns, today - ago * DAY, each, DAY, timeout=3_600)
    await connection.execute(
        "INSERT INTO holdfast.tally (ns, queue, state, part, jobs) "
        "SELECT ns, queue, state, tableoid, count(*) FROM holdfast.done GROUP BY 1, 2, 3, 4",
        timeout=3_600,
    )
    await connection.execute(FUTURE, ns, now, plan.pg_future, timeout=3_600)
    await connection.execute("VACUUM (ANALYZE) holdfast.done", timeout=3_600)
    await connection.execute("VACUUM (ANALYZE) holdfast.job", timeout=3_600)
    await connection.execute("CHECKPOINT", timeout=3_600)


async def _drop(url: str, count: int) -> Figures:
    store, patient = open_store(url), open_store(f"{url}?timeout={PATIENCE}")
    session, other = await store.connect("default"), await patient.connect("default")
    try:
        return await _dropped_while_claiming(session, other, count)
    finally:
        await session.close()
        await other.close()
        await store.close()
        await patient.close()


async def _dropped_while_claiming(session: Session, other: Session, count: int) -> Figures:
    worker = worker_record(("default",), frozenset({"noop_async"}), BATCH)
    await session.fleet.register(worker, LEASE)
    for _ in range(0, count, ADDED):
        await session.jobs.add([new_job() for _ in range(ADDED)])
    dropping = asyncio.Event()
    ended = asyncio.Event()
    claiming = asyncio.create_task(_claim_on(session.jobs, worker.id, dropping, ended))
    try:
        await asyncio.wait([claiming], timeout=BEFORE)
        dropping.set()
        begun = time.perf_counter()
        tries = dropped = 0
        while not dropped and tries < TRIES:  # it gives way to whoever has the tables
            tries += 1
            dropped = await other.jobs.prune(DAY, 1_000)
        took = time.perf_counter() - begun
    finally:
        ended.set()
    before, during = await claiming
    if not dropped:
        raise RuntimeError("no day was dropped")
    return {
        PAUSE: max(during) * 1e3,
        PAUSE_BEFORE: max(before) * 1e3,
        TICK: median(before) * 1e3,
        DROP_TIME: took * 1e3,
        DROPPED: dropped,
        TRIED: tries,
    }


async def _claim_on(
    jobs: JobStore, worker: str, dropping: asyncio.Event, ended: asyncio.Event
) -> tuple[list[float], list[float]]:
    """Claims, and reports what it claimed before; what it completes is added anew.

    How long each tick took, before the drop began and since.
    """
    want = Want(queues=("default",), tasks=frozenset({"noop_async"}), limit=BATCH, lease=LEASE)
    claimed: list[JobRecord] = []
    before: list[float] = []
    during: list[float] = []
    seq = 0
    while not (ended.is_set() and during):
        seq += 1
        is_dropping = dropping.is_set()
        begun = time.perf_counter()
        ticked = await jobs.tick(Tick(worker=worker, seq=seq, moves=ends(claimed), want=want))
        (during if is_dropping else before).append(time.perf_counter() - begun)
        claimed = ticked.claimed
        if len(claimed) < BATCH:
            await jobs.add([new_job() for _ in range(ADDED)])
    await jobs.tick(Tick(worker=worker, seq=seq + 1, moves=ends(claimed)))
    return before, during


def ends(claimed: list[JobRecord]) -> list[Move]:
    """The moves that end them well."""
    return [
        Move(job=record.id, token=record.token, path=SUCCEEDED, outcome=Ending.SUCCESS, elapsed=5)
        for record in claimed
    ]
