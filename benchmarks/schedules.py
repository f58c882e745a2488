"""How late recurring jobs start: a few schedules on an idle system, and a thousand due each second."""

import asyncio
import statistics
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial

from benchmarks.case import CPU, P50, P99, RATE, Case, Figures, Goal, Place, Side
from benchmarks.engine import Server
from benchmarks.plan import Plan
from benchmarks.postgres.server import database
from benchmarks.redis.server import emptied
from holdfast import Context, Holdfast, every
from holdfast.engine.ids import new_id
from holdfast.model import schedule as rules
from holdfast.model.plan import Plan as StoredPlan
from holdfast.model.task import Call

FEW = 20
DUE_EACH_SECOND = 1_000
PUT_AT_ONCE = 250
LEAD = 2.0
"""Seconds between the last schedule that is put and the first that is due."""

At = Callable[[Server], AbstractAsyncContextManager[str]]


@asynccontextmanager
async def _redis(server: Server) -> AsyncGenerator[str]:
    async with emptied(server):
        yield server.url


def few(plan: Plan, place: Place, *, at: At) -> Figures:
    """Each due once a second, at another part of it."""
    return asyncio.run(_late(at(place.server), FEW, 1 / FEW, every_seconds=1, seconds=plan.schedule_seconds))


def many(plan: Plan, place: Place, *, at: At) -> Figures:
    """All that are stored are due one after the other, a thousand each second."""
    count = plan.schedules
    apart = 1 / DUE_EACH_SECOND
    return asyncio.run(
        _late(
            at(place.server), count, apart, every_seconds=max(1, count * apart), seconds=plan.schedule_seconds
        )
    )


async def _late(
    at: AbstractAsyncContextManager[str], count: int, apart: float, *, every_seconds: float, seconds: float
) -> Figures:
    late: list[float] = []
    async with at as url:
        app = Holdfast(url, auto_migrate=True, concurrency=100, log_level="error")

        @app.task
        async def tick(ctx: Context) -> None:
            assert ctx.firing is not None
            late.append((time.time() - ctx.firing.due.timestamp()) * 1e3)

        async with app:
            begins = datetime.now(UTC) + timedelta(seconds=LEAD + count / 20_000)
            await _put(app, tick.call(), count, apart, every_seconds, begins)
            await asyncio.sleep(max(0.0, (begins - datetime.now(UTC)).total_seconds() - 1))
            began, cpu = time.monotonic(), time.process_time()
            async with app.worker():
                await asyncio.sleep(seconds + 1)
            took = time.monotonic() - began - 1
            cpu = time.process_time() - cpu
    hundredths = statistics.quantiles(late, n=100, method="inclusive")
    return {P50: hundredths[49], P99: hundredths[98], RATE: len(late) / took, CPU: cpu / len(late) * 1e6}


async def _put(
    app: Holdfast, call: Call, count: int, apart: float, every_seconds: float, begins: datetime
) -> None:
    schedules = app.client.session.schedules
    now = (await schedules.get([])).now
    for first in range(0, count, PUT_AT_ONCE):
        plans = [
            StoredPlan.of(
                rules.schedule(
                    f"s{number:06}", every(every_seconds, start=begins + timedelta(seconds=number * apart))
                ),
                call,
            )
            for number in range(first, min(first + PUT_AT_ONCE, count))
        ]
        await schedules.write([plan.write(rules.begin(plan.schedule, now), None, new_id()) for plan in plans])


def _cases(prefix: str, suite: str, at: At) -> tuple[Case, Case]:
    return (
        Case(
            name=f"{prefix}-schedules",
            title="how late the jobs of twenty schedules start, each due once a second, on an idle system",
            suite=suite,
            usual=False,
            sides=(Side("holdfast", partial(few, at=at)),),
            goals=(
                Goal(text="schedules: p99 of lateness under 50 ms", side="holdfast", figure=P99, at_most=50),
            ),
        ),
        Case(
            name=f"{prefix}-many-schedules",
            title="the same with a hundred thousand schedules, a thousand due each second, one leader",
            suite=suite,
            usual=False,
            sides=(Side("holdfast", partial(many, at=at)),),
            goals=(
                Goal(
                    text="many schedules: at least 990 of 1,000 jobs a second",
                    side="holdfast",
                    figure=RATE,
                    at_least=990,
                ),
            ),
        ),
    )


POSTGRES = _cases("pg", "postgres", database)
REDIS = _cases("redis", "redis", _redis)
