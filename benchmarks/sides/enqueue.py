"""Enqueueing from many callers at once, each waiting until its job is stored."""

import asyncio
import time

from benchmarks.case import CPU, RATE, Figures, Place
from benchmarks.plan import Plan
from benchmarks.sides.work import make_app
from holdfast import Holdfast

CALLERS = 100


def memory(plan: Plan, _place: Place) -> Figures:
    return asyncio.run(_enqueue(make_app("memory://"), plan.enqueued))


def sqlite(plan: Plan, place: Place, *, callers: int = CALLERS) -> Figures:
    count = max(1, plan.enqueued * callers // CALLERS)
    return asyncio.run(_enqueue(make_app(f"sqlite:///{place.fresh / 'enqueue.db'}"), count, callers))


async def _enqueue(app: Holdfast, count: int, callers: int = CALLERS) -> Figures:
    enqueue = app.tasks["noop_async"].enqueue
    remaining = iter(range(count))

    async def caller() -> None:
        for number in remaining:
            await enqueue(number)

    async with app:
        begun, cpu_begun = time.perf_counter(), time.process_time()
        await asyncio.gather(*(caller() for _ in range(callers)))
        wall, cpu = time.perf_counter() - begun, time.process_time() - cpu_begun
        stored = (await app.stats()).queued
    if stored != count:
        raise RuntimeError(f"{count} jobs were enqueued and {stored} are stored")
    return {RATE: count / wall, CPU: cpu / count * 1e6}
