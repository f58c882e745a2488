"""Claim and complete as plain SQL through `sqlite3`: the engine alone, on a file that Holdfast made.

Same tables, indexes and rows, same durability. It does in each commit what a tick does: the last hundred jobs
become finished, guarded by their tokens, and the next hundred are claimed.
"""

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.case import CPU, RATE, WALL, Figures, Place
from benchmarks.plan import Plan
from benchmarks.sides.work import make_app, store_jobs

BATCH = 100
LEASE = 120_000_000
WORKER = "raw-worker-0001"

CLAIM = """
UPDATE holdfast_job
SET state = 1, ready = NULL, run = run + 1, version = version + 1, token = max(token + 1, :now),
    worker = :worker, seq = :seq, lease_until = :now + coalesce(lease, :lease),
    started = NULL, reason = NULL, progress = NULL, progress_note = NULL
WHERE pk IN (SELECT pk FROM holdfast_job
             WHERE ns = 1 AND queue = 'default' AND ready = 1 AND task = 'noop_async'
             ORDER BY priority, due, id LIMIT :limit)
RETURNING pk, token, id, task, run, (SELECT payload FROM holdfast_body AS b WHERE b.pk = holdfast_job.pk)
"""
KEPT = """ns, id, task, queue, priority, due, run, failures, lost, suspect, token, cancel_asked, created,
    lease, timeout, key, tags, progress, progress_note"""
COMPLETE = f"""
INSERT INTO holdfast_done ({KEPT}, body, state, version, ran_by, started, finished, result)
SELECT {KEPT}, pk, 3, version + 1, worker, :now - :elapsed, :now, :result FROM holdfast_job
"""
ONE = "WHERE pk = :pk AND token = :token AND worker = :worker"
ALL = "WHERE ns = 1 AND worker = :worker AND seq = :seq"
TALLY = """
INSERT INTO holdfast_tally (ns, queue, state, jobs) VALUES (1, 'default', 3, :done)
ON CONFLICT (ns, queue, state) DO UPDATE SET jobs = jobs + excluded.jobs
"""


def work(plan: Plan, place: Place, *, by_job: bool) -> Figures:
    """With `by_job` each completion is a statement with its own values; else one statement finishes a batch.

    The latter cannot store results or start times that differ, so no product can do it; it is the bound.
    """
    path = place.fresh / "raw.db"
    asyncio.run(store_jobs(make_app(f"sqlite:///{path}"), "noop_async", plan.sqlite_jobs))
    with _open(path) as connection:
        begun, cpu_begun = time.perf_counter(), time.process_time()
        _work_off(connection, by_job=by_job)
        wall, cpu = time.perf_counter() - begun, time.process_time() - cpu_begun
        (done,) = connection.execute("SELECT count(*) FROM holdfast_done").fetchone()
    if done != plan.sqlite_jobs:
        raise RuntimeError(f"{plan.sqlite_jobs} jobs were stored and {done} are finished")
    return {RATE: done / wall, WALL: wall / done * 1e6, CPU: cpu / done * 1e6}


def _work_off(connection: sqlite3.Connection, *, by_job: bool) -> None:
    seq = 0
    claimed: list[tuple[int, int]] = []
    while claimed or seq == 0:
        now = time.time_ns() // 1_000
        seq += 1
        connection.execute("BEGIN IMMEDIATE")
        if claimed:
            if by_job:
                _complete_each(connection, claimed, now)
            else:
                _complete_batch(connection, seq - 1, now)
            connection.execute(TALLY, {"done": len(claimed)})
        values = {"now": now, "worker": WORKER, "seq": seq, "lease": LEASE, "limit": BATCH}
        claimed = [row[:2] for row in connection.execute(CLAIM, values).fetchall()]
        connection.execute("COMMIT")


def _complete_each(connection: sqlite3.Connection, claimed: list[tuple[int, int]], now: int) -> None:
    values = [
        {"pk": pk, "token": token, "worker": WORKER, "now": now, "elapsed": 5, "result": b"null"}
        for pk, token in claimed
    ]
    connection.executemany(COMPLETE + ONE, values)
    connection.executemany(f"DELETE FROM holdfast_job {ONE}", values)


def _complete_batch(connection: sqlite3.Connection, seq: int, now: int) -> None:
    values = {"worker": WORKER, "seq": seq, "now": now, "elapsed": 5, "result": b"null"}
    connection.execute(COMPLETE + ALL, values)
    connection.execute(f"DELETE FROM holdfast_job {ALL}", values)


@contextmanager
def _open(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        yield connection
    finally:
        connection.close()
