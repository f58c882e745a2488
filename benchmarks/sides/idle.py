"""A worker with nothing to do."""

import asyncio
import time

from benchmarks.case import LOAD, Figures, Place
from benchmarks.plan import Plan
from benchmarks.sides.work import make_app
from holdfast import Holdfast


def memory(plan: Plan, _place: Place) -> Figures:
    return asyncio.run(_rest(make_app("memory://"), plan.idle_seconds))


def sqlite(plan: Plan, place: Place) -> Figures:
    return asyncio.run(_rest(make_app(f"sqlite:///{place.fresh / 'idle.db'}"), plan.idle_seconds))


async def _rest(app: Holdfast, seconds: float) -> Figures:
    async with app.worker():
        await asyncio.sleep(min(1.0, seconds))  # what its start costs is not idling
        begun, cpu_begun = time.perf_counter(), time.process_time()
        await asyncio.sleep(seconds)
        wall, cpu = time.perf_counter() - begun, time.process_time() - cpu_begun
    return {LOAD: cpu / wall * 100}
