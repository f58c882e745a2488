"""From just before `enqueue` to the handler's first line, on an idle worker; so the commit is in it."""

import asyncio
import multiprocessing
import random
import statistics
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.case import P50, P99, Figures, Place
from benchmarks.plan import Plan
from holdfast import Holdfast

GAP = 0.05
"""Up to this many seconds between two jobs, at random, so that no poll is met in step."""

Started = Callable[[], Awaitable[float]]


def memory(plan: Plan, _place: Place) -> Figures:
    return asyncio.run(_same_process("memory://", plan.probes))


def sqlite(plan: Plan, place: Place) -> Figures:
    return asyncio.run(_same_process(f"sqlite:///{place.fresh / 'latency.db'}", plan.probes))


def other_process(plan: Plan, place: Place) -> Figures:
    """The monotonic clock is one for all processes, so that the two ends can be compared."""
    path = place.fresh / "latency.db"
    here, there = multiprocessing.get_context("spawn").Pipe()
    worker = multiprocessing.get_context("spawn").Process(target=_serve, args=(path, there))
    worker.start()
    there.close()
    try:
        here.recv()
        return asyncio.run(_from_outside(path, plan.probes, here))
    finally:
        worker.terminate()
        worker.join()


async def _same_process(url: str, count: int) -> Figures:
    app = Holdfast(url, log_level="error")
    started: asyncio.Queue[float] = asyncio.Queue()

    @app.task
    async def mark() -> None:
        started.put_nowait(time.monotonic())

    async with app.worker(), app:
        return await _probe(app, count, started.get)


async def _from_outside(path: Path, count: int, worker: Connection) -> Figures:
    app = _outside_app(path, None)

    async def started() -> float:
        return float(await asyncio.to_thread(worker.recv))

    async with app:
        return await _probe(app, count, started)


async def _probe(app: Holdfast, count: int, started: Started) -> Figures:
    enqueue = app.tasks["mark"].enqueue
    waited: list[float] = []
    for _ in range(count):
        await asyncio.sleep(random.uniform(0, GAP))
        sent = time.monotonic()
        await enqueue()
        waited.append((await started() - sent) * 1_000)
    hundredths = statistics.quantiles(waited, n=100, method="inclusive")
    return {P50: hundredths[49], P99: hundredths[98]}


def _serve(path: Path, parent: Connection) -> None:
    app = _outside_app(path, parent)
    app.on_startup(lambda: parent.send("ready"))
    asyncio.run(app.worker().run())


def _outside_app(path: Path, parent: Connection | None) -> Holdfast:
    app = Holdfast(f"sqlite:///{path}", log_level="error")

    @app.task
    async def mark() -> None:
        assert parent is not None
        parent.send(time.monotonic())

    return app
