"""A Holdfast worker on jobs that are already stored."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

from benchmarks.case import CPU, RATE, STORE, WALL, Figures, Place
from benchmarks.plan import Plan
from holdfast import Holdfast
from holdfast.engine.notices import Notice
from holdfast.model.lifecycle import FINISHED
from holdfast.model.records import Tick, Ticked
from holdfast.stores.memory.jobs import MemoryJobs

CONCURRENCY = 100


def memory(plan: Plan, _place: Place, *, task: str, listened: bool = False) -> Figures:
    """All of the CPU time of the process while it serves: engine, handlers' calls and the store itself."""
    app = make_app("memory://")
    told: list[str] = []
    if listened:
        app.notices.listen(lambda notice: _hear(told, notice))
    with _store_watched() as spent:
        figures = asyncio.run(_stored_and_worked(app, task, plan.memory_jobs))
    return figures | {STORE: sum(spent) / 1_000 / plan.memory_jobs}


def sqlite(plan: Plan, place: Place, *, task: str = "noop_async", concurrency: int = CONCURRENCY) -> Figures:
    app = make_app(f"sqlite:///{place.fresh / 'work.db'}", concurrency)
    return asyncio.run(_stored_and_worked(app, task, plan.sqlite_jobs))


def make_app(url: str, concurrency: int = CONCURRENCY) -> Holdfast:
    app = Holdfast(url, concurrency=concurrency, log_level="error", auto_migrate=True)

    @app.task
    async def noop_async(number: int) -> None:
        pass

    @app.task
    def noop_sync(number: int) -> None:
        pass

    return app


async def store_jobs(app: Holdfast, task: str, count: int) -> None:
    call = app.tasks[task].call
    async with app:
        await app.enqueue_many(call(number) for number in range(count))


async def work_off(app: Holdfast, queues: Sequence[str] | None = None) -> tuple[float, float]:
    """Runs a worker until nothing is left; wall and CPU seconds between its start and its last verdict."""
    marks: list[tuple[float, float]] = []
    for hook in (app.on_startup, app.on_shutdown):
        hook(lambda: marks.append((time.perf_counter(), time.process_time())))
    await app.worker(queues).run(until_idle=True)
    (wall_begun, cpu_begun), (wall_ended, cpu_ended) = marks
    return wall_ended - wall_begun, cpu_ended - cpu_begun


async def _stored_and_worked(app: Holdfast, task: str, count: int) -> Figures:
    if app.settings.store.startswith("memory"):
        async with app:
            await store_jobs(app, task, count)
            return await _worked(app, count)
    await store_jobs(app, task, count)
    return await _worked(app, count)


async def _worked(app: Holdfast, count: int) -> Figures:
    wall, cpu = await work_off(app)
    async with app:
        stats = await app.stats()
    done = sum(number for state, number in stats.by_state.items() if state in FINISHED)
    if done != count:
        raise RuntimeError(f"{count} jobs were stored and {done} are finished: {stats.by_state}")
    return {RATE: count / wall, WALL: wall / count * 1e6, CPU: cpu / count * 1e6}


def _hear(told: list[str], notice: Notice) -> None:
    told.append(notice.kind)


@contextmanager
def _store_watched() -> Iterator[list[int]]:
    """The nanoseconds that each tick of the memory store takes."""
    spent: list[int] = []
    original = MemoryJobs.tick

    async def watched(self: MemoryJobs, tick: Tick) -> Ticked:
        begun = time.thread_time_ns()
        try:
            return await original(self, tick)
        finally:
            spent.append(time.thread_time_ns() - begun)

    with patch.object(MemoryJobs, "tick", watched):
        yield spent
