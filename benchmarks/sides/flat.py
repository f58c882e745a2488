"""Claims from a store with much in it that cannot be claimed, and from one with nothing else."""

import asyncio
import sqlite3
import time
from pathlib import Path

from benchmarks.case import Figures, Place
from benchmarks.plan import Plan
from benchmarks.sides.work import make_app, work_off
from holdfast.engine.identity import worker_record
from holdfast.engine.ids import new_id
from holdfast.model.lifecycle import SUCCEEDED, Ending
from holdfast.model.records import JobRecord, Move, NewJob, Tick, Want
from holdfast.store import JobStore
from holdfast.stores import open_store

CLAIMS = "claims/s"
COMPLETIONS = "completions/s"
BATCH = 100
ADDED = 500
LEASE = 600_000_000
YEAR = 366 * 86_400


def prepare(plan: Plan, place: Place) -> None:
    """Stores one future and one finished job, then copies each inside the database."""
    path = place.shared / "big.db"
    asyncio.run(_plant(path))
    connection = sqlite3.connect(path)
    with connection:
        _multiply(connection, plan.flat_rows)
    connection.close()


def empty(plan: Plan, place: Place) -> Figures:
    return asyncio.run(claim(f"sqlite:///{place.fresh / 'empty.db'}", plan.flat_claims))


def big(plan: Plan, place: Place) -> Figures:
    return asyncio.run(claim(f"sqlite:///{place.shared / 'big.db'}", plan.flat_claims))


async def _plant(path: Path) -> None:
    app = make_app(f"sqlite:///{path}")
    task = app.tasks["noop_async"]
    async with app:
        await task.enqueue(0)
        await work_off(app)
        await task.using(delay=YEAR).enqueue(0)


def _multiply(connection: sqlite3.Connection, total: int) -> None:
    """Copies the finished and the waiting job, the first and the second ever stored, under growing ids."""
    grown = {"pk": "pk + n", "id": "substr(id, 1, length(id) - 12) || printf('%012x', n)", "due": "due + n"}
    _copy(connection, "holdfast_body", total * 2 - 2, {"pk": "n + 2"})
    _copy(connection, "holdfast_job", total - 1, grown)
    _copy(connection, "holdfast_done", total - 1, grown | {"body": f"n + {total + 1}"})
    connection.execute("UPDATE holdfast_tally SET jobs = ? WHERE state = 3", (total,))


def _copy(connection: sqlite3.Connection, table: str, count: int, changed: dict[str, str]) -> None:
    """Copies one row of the table so many times; `n` in what is changed counts the copies."""
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    chosen = [changed.get(column, column) for column in columns]
    connection.execute(
        f"WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?) "
        f"INSERT INTO {table} ({', '.join(columns)}) "
        f"SELECT {', '.join(chosen)} FROM numbers CROSS JOIN (SELECT * FROM {table} LIMIT 1)",
        (count,),
    )


async def claim(url: str, count: int) -> Figures:
    """Adds so many jobs, claims all of them, then completes all of them."""
    store = open_store(url, auto_migrate=True)
    session = await store.connect("default")
    worker = worker_record(("default",), frozenset({"noop_async"}), BATCH)
    try:
        await session.fleet.register(worker, LEASE)
        for _ in range(0, count, ADDED):
            await session.jobs.add([new_job() for _ in range(ADDED)])
        begun = time.perf_counter()
        claimed = await _claim_all(session.jobs, worker.id)
        between = time.perf_counter()
        await _complete_all(session.jobs, worker.id, claimed)
        ended = time.perf_counter()
    finally:
        await session.close()
        await store.close()
    return {CLAIMS: len(claimed) / (between - begun), COMPLETIONS: len(claimed) / (ended - between)}


def new_job() -> NewJob:
    return NewJob(id=new_id(), task="noop_async", queue="default", payload=b'{"number":1}')


async def _claim_all(jobs: JobStore, worker: str) -> list[JobRecord]:
    want = Want(queues=("default",), tasks=frozenset({"noop_async"}), limit=BATCH, lease=LEASE)
    claimed: list[JobRecord] = []
    seq = 0
    while True:
        seq += 1
        ticked = await jobs.tick(Tick(worker=worker, seq=seq, moves=[], want=want))
        if not ticked.claimed:
            return claimed
        claimed += ticked.claimed


async def _complete_all(jobs: JobStore, worker: str, claimed: list[JobRecord]) -> None:
    for start in range(0, len(claimed), BATCH):
        moves = [
            Move(job=record.id, token=record.token, path=SUCCEEDED, outcome=Ending.SUCCESS, elapsed=5)
            for record in claimed[start : start + BATCH]
        ]
        await jobs.tick(Tick(worker=worker, seq=1_000_000 + start, moves=moves))
