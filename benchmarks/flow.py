"""What limits, parked jobs and fair keys cost, and what fair keys are worth; on each store."""

import asyncio
import statistics
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

from benchmarks.case import CPU, P99, RATE, SERVER_CPU, Case, Figures, Goal, Place, Side
from benchmarks.plan import Plan
from benchmarks.postgres.server import database
from benchmarks.redis.server import emptied
from benchmarks.sides.work import work_off
from holdfast import Holdfast, Limit
from holdfast.model.task import Call

CONCURRENCY = 100
AT_ONCE = 10
"""How many jobs of a key may run at once."""

TENANTS = 100
SHARE = 0.9
"""How much of the work one of the tenants has."""

At = Callable[[Place], AbstractAsyncContextManager[str]]
Measure = Callable[[str], Coroutine[Any, Any, Figures]]


@asynccontextmanager
async def _sqlite(place: Place) -> AsyncGenerator[str]:
    yield f"sqlite:///{place.fresh / 'flow.db'}"


@asynccontextmanager
async def _redis(place: Place) -> AsyncGenerator[str]:
    async with emptied(place.server):
        yield place.server.url


def _postgres(place: Place) -> AbstractAsyncContextManager[str]:
    return database(place.server)


class Bench:
    """An application with tasks that do nothing, and a limit on each key of one of them."""

    def __init__(self, url: str, limit: Limit | None = None) -> None:
        self.app = Holdfast(url, auto_migrate=True, concurrency=CONCURRENCY, log_level="error")
        self.started: list[tuple[int, float]] = []

        @self.app.task
        async def plain(number: int) -> None:
            pass

        @self.app.task(limit_by="number", key_limit=limit)
        async def limited(number: int) -> None:
            pass

        @self.app.task(fair_by="tenant")
        async def fair(tenant: int) -> None:
            self.started.append((tenant, time.perf_counter()))

        self.plain, self.limited, self.fair = plain, limited, fair

    async def store(self, calls: Sequence[Call]) -> None:
        async with self.app:
            await self.app.enqueue_many(calls)


def unlimited(plan: Plan, place: Place, *, at: At, beside: bool = False) -> Figures:
    """Jobs without keys and without limits, where nothing is limited or where something else is."""

    async def measure(url: str) -> Figures:
        bench = Bench(url, Limit(concurrency=AT_ONCE) if beside else None)
        call = bench.plain.call(1)
        await bench.store([call] * plan.flow_jobs)
        return await _worked(bench, place, plan.flow_jobs)

    return asyncio.run(_at(at(place), measure))


def limited(plan: Plan, place: Place, *, at: At, by_turns: bool) -> Figures:
    """A limit of ten on each of a thousand keys, which come by turns or one after the other."""

    async def measure(url: str) -> Figures:
        bench = Bench(url, Limit(concurrency=AT_ONCE))
        keys = [bench.limited.call(number) for number in range(plan.flow_keys)]
        each = plan.flow_jobs // len(keys)
        await bench.store(keys * each if by_turns else [call for call in keys for _ in range(each)])
        return await _worked(bench, place, each * len(keys))

    return asyncio.run(_at(at(place), measure))


def beside_parked(plan: Plan, place: Place, *, at: At, parked: bool) -> Figures:
    """Jobs without limits, beside very many of a key that has no room, or beside none."""

    async def measure(url: str) -> Figures:
        bench = Bench(url)
        app, waiting = bench.app, bench.limited.using(limit_key="full", queue="aside")
        async with app:
            await app.limits.set(key="full", concurrency=1)
            await app.limits.pause(key="full")
            if parked:
                await app.enqueue_many([waiting.call(1)] * plan.flow_parked)
                await app.worker(queues=["aside"]).run(until_idle=True)
                assert (await app.stats()).parked == plan.flow_parked
            await app.enqueue_many([bench.plain.call(1)] * plan.flow_jobs)
        return await _worked(bench, place, plan.flow_jobs, queues=["default", "aside"])

    return asyncio.run(_at(at(place), measure))


def waits(plan: Plan, place: Place, *, at: At, with_big: bool) -> Figures:
    """How long the jobs of 99 tenants wait, with and without one that has nine tenths of the work."""

    async def measure(url: str) -> Figures:
        bench = Bench(url)
        others = int(plan.flow_jobs * (1 - SHARE))
        calls = [bench.fair.call(0)] * (plan.flow_jobs - others) if with_big else []
        tenants = [bench.fair.call(tenant) for tenant in range(1, TENANTS)]
        await bench.store(calls)
        await bench.store([tenants[number % len(tenants)] for number in range(others)])
        begun = time.perf_counter()
        await bench.app.worker().run(until_idle=True)
        waited = [(started - begun) * 1e3 for tenant, started in bench.started if tenant]
        assert len(waited) == others
        return {P99: statistics.quantiles(waited, n=100, method="inclusive")[98]}

    return asyncio.run(_at(at(place), measure))


async def _at(place: AbstractAsyncContextManager[str], measure: Measure) -> Figures:
    async with place as url:
        return await measure(url)


async def _worked(bench: Bench, place: Place, count: int, queues: Sequence[str] | None = None) -> Figures:
    server = place.given
    server_begun = 0.0 if server is None else server.cpu()
    wall, cpu = await work_off(bench.app, queues)
    server_cpu = 0.0 if server is None else server.cpu() - server_begun
    async with bench.app:
        done = (await bench.app.stats()).completed
    if done != count:
        raise RuntimeError(f"{count} jobs were stored and {done} have succeeded")
    figures = {RATE: count / wall, CPU: cpu / count * 1e6}
    return figures if server is None else figures | {SERVER_CPU: server_cpu / count * 1e6}


def _cases(prefix: str, suite: str | None, at: At) -> tuple[Case, Case, Case]:
    return (
        Case(
            name=f"{prefix}limits",
            title="no-op jobs with a limit of ten on each of a thousand keys, and without limits",
            suite=suite,
            usual=False,
            sides=(
                Side("no limits", partial(unlimited, at=at)),
                Side("no limits, beside limits", partial(unlimited, at=at, beside=True)),
                Side("limited, keys by turns", partial(limited, at=at, by_turns=True)),
                Side("limited, key after key", partial(limited, at=at, by_turns=False)),
            ),
            goals=tuple(
                Goal(
                    text=f"{side}: at least 0.5 × without limits",
                    side=side,
                    figure=RATE,
                    over=("no limits",),
                    at_least=0.5,
                )
                for side in ("limited, keys by turns", "limited, key after key")
            ),
        ),
        Case(
            name=f"{prefix}parked",
            title="no-op jobs without limits beside two hundred thousand parked ones, and beside none",
            suite=suite,
            usual=False,
            sides=(
                Side("none parked", partial(beside_parked, at=at, parked=False)),
                Side("many parked", partial(beside_parked, at=at, parked=True)),
            ),
            goals=(
                Goal(
                    text="beside parked jobs: at least 0.8 × beside none",
                    side="many parked",
                    figure=RATE,
                    over=("none parked",),
                    at_least=0.8,
                ),
            ),
        ),
        Case(
            name=f"{prefix}fair",
            title="how long jobs of 99 tenants wait, with one that has nine tenths of the work, and without",
            suite=suite,
            usual=False,
            sides=(
                Side("without it", partial(waits, at=at, with_big=False)),
                Side("with it", partial(waits, at=at, with_big=True)),
            ),
            goals=(
                Goal(
                    text="fair keys: p99 of the others' wait at most 2 × without the big one",
                    side="with it",
                    figure=P99,
                    over=("without it",),
                    at_most=2,
                ),
            ),
        ),
    )


SQLITE = _cases("", None, _sqlite)
POSTGRES = _cases("pg-", "postgres", _postgres)
REDIS = _cases("redis-", "redis", _redis)
