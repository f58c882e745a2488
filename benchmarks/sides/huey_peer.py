"""Huey on SQLite with `fsync=True`: the peer that keeps jobs in the same engine with the same durability.

It takes a job off its queue when the job starts, keeps no history, and stores no result of a task that gives
None; a worker that dies loses the job. It does less per job, so its rate is a generous one.
"""

import logging
import multiprocessing
import threading
import time
from importlib import import_module
from typing import Any

from benchmarks.case import RATE, Figures, Place
from benchmarks.plan import Plan

POLL_SECONDS = 0.01
"""Its longest pause when it finds nothing; far below the default, so that it never waits here."""


def work(plan: Plan, place: Place, *, workers: int, kind: str = "thread") -> Figures:
    """From the start of its consumer to the end of the last handler."""
    count = plan.peer_jobs
    left = multiprocessing.Value("q", count)
    done = multiprocessing.Event()

    def noop(_number: int) -> None:
        with left:
            left.value -= 1
            if left.value == 0:
                done.set()

    huey, task = _huey(place, noop)
    for number in range(count):
        task(number)
    huey.storage.close()
    consumer = huey.create_consumer(
        workers=workers,
        worker_type=kind,
        periodic=False,
        initial_delay=POLL_SECONDS,
        max_delay=POLL_SECONDS,
    )
    begun = time.perf_counter()
    consumer.start()
    done.wait()
    wall = time.perf_counter() - begun
    consumer.stop(graceful=True)
    return {RATE: count / wall}


def enqueue(plan: Plan, place: Place, *, threads: int) -> Figures:
    """Jobs are shared out among the threads."""
    count = max(1, plan.peer_jobs // threads) * threads
    huey, task = _huey(place, lambda number: None)

    def caller() -> None:
        for number in range(count // threads):
            task(number)

    callers = [threading.Thread(target=caller) for _ in range(threads)]
    begun = time.perf_counter()
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    wall = time.perf_counter() - begun
    stored = huey.storage.queue_size()
    if stored != count:
        raise RuntimeError(f"{count} jobs were enqueued and {stored} are stored")
    return {RATE: count / wall}


def _huey(place: Place, function: Any) -> tuple[Any, Any]:
    # Imported by name: it has no types, and is there only when the `bench` extra is installed.
    huey = import_module("huey").SqliteHuey("bench", filename=str(place.fresh / "huey.db"), fsync=True)
    logging.getLogger("huey").setLevel(logging.WARNING)
    return huey, huey.task(name="noop")(function)
