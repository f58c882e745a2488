"""One store against three partitions: stored no-op jobs of twelve queues, until all are finished."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial

from benchmarks.case import CPU, RATE, Case, Figures, Goal, Place, Side
from benchmarks.engine import Server
from benchmarks.plan import Plan
from benchmarks.postgres.server import database
from benchmarks.program import Program, ours
from benchmarks.programs.partition_program import QUEUES
from benchmarks.redis.server import SETTINGS, emptied
from benchmarks.running import call, cpu_of, first, working
from holdfast import Holdfast
from holdfast.model.partition import as_url, layout
from tests.servers.redis import Redis
from tests.servers.redis_binaries import find_redis
from tests.servers.run import OwnedRun

PROGRAM = Program(ours("benchmarks.programs.partition_program"), "")
CALLERS = 100
POLL = 0.01
ENQUEUED = "enqueued/s"

At = Callable[[Server, int], AbstractAsyncContextManager[str]]


@asynccontextmanager
async def _databases(server: Server, count: int) -> AsyncGenerator[str]:
    """So many databases of the one server."""
    async with AsyncExitStack() as stack:
        yield _url(
            {f"p{number}": await stack.enter_async_context(database(server)) for number in range(count)}
        )


@asynccontextmanager
async def _servers(server: Server, count: int) -> AsyncGenerator[str]:
    """The server, and as many more of our own as are missing."""
    run = OwnedRun()
    try:
        others = [
            Redis.make(run, find_redis(run), f"bench-{number}", **SETTINGS) for number in range(1, count)
        ]
        async with emptied(server):
            yield _url(
                {f"p{number}": url for number, url in enumerate([server.url, *(each.url for each in others)])}
            )
    finally:
        run.close()


def _url(urls: Mapping[str, str]) -> str:
    """The store: one as it is, several as partitions that have as many queues each."""
    if len(urls) == 1:
        return next(iter(urls.values()))
    names = list(urls)
    return as_url(
        layout(urls, queues=[(queue, names[place % len(names)]) for place, queue in enumerate(QUEUES)])
    )


def work(plan: Plan, place: Place, *, at: At, partitions: int, processes: int) -> Figures:
    count = plan.redis_jobs if at is _servers else plan.pg_jobs
    return asyncio.run(_work(at(place.server, partitions), count, processes))


async def _work(at: AbstractAsyncContextManager[str], count: int, processes: int) -> Figures:
    async with at as url:
        await call(PROGRAM, "setup", url)
        filling, _ = await call(PROGRAM, "enqueue", url, max(CALLERS, count // 4), CALLERS)
        filled = max(CALLERS, count // 4)
        await call(PROGRAM, "fill", url, count)
        async with working(PROGRAM, url, processes) as workers, Holdfast(url, log_level="error") as app:
            await first(workers)
            cpu_begun = cpu_of(workers)
            while (await app.stats()).queued:  # noqa: ASYNC110  it is the store that knows
                await asyncio.sleep(POLL)
            while (await app.stats()).in_progress:  # noqa: ASYNC110  it is the store that knows
                await asyncio.sleep(POLL)
            ended = time.monotonic_ns()
            cpu = cpu_of(workers) - cpu_begun
            began = min(worker.first for worker in workers if worker.first is not None)
    done = count + filled
    return {RATE: done / (ended - began) * 1e9, CPU: cpu / done * 1e6, ENQUEUED: filled / filling}


def _case(prefix: str, suite: str, at: At, what: str) -> Case:
    one, three = "one, 3 processes", "three, 3 processes"
    return Case(
        name=f"{prefix}-partition",
        title=f"no-op jobs of twelve queues on one {what} and on three, with as many worker processes",
        suite=suite,
        usual=False,
        sides=(
            Side("one, 1 process", partial(work, at=at, partitions=1, processes=1)),
            Side("three, 1 process", partial(work, at=at, partitions=3, processes=1)),
            Side(one, partial(work, at=at, partitions=1, processes=3)),
            Side(three, partial(work, at=at, partitions=3, processes=3)),
        ),
        goals=(
            Goal(
                text="three partitions: at least as fast as one, where processes have cores to run on",
                side=three,
                figure=RATE,
                over=(one,),
                at_least=1,
            ),
        ),
    )


POSTGRES = (_case("pg", "postgres", _databases, "PostgreSQL database"),)
REDIS = (_case("redis", "redis", _servers, "Redis server"),)
