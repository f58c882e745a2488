"""One store against three partitions: stored no-op jobs of twelve queues, until all are finished.

Worker processes and servers share the cores of one machine, so that the rate says little there of what more
servers give. So there are small servers too, each with a small part of a core: they limit the rate.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial

from benchmarks.case import CPU, RATE, Case, Figures, Goal, Place, Side
from benchmarks.engine import Server, tree_cpu
from benchmarks.plan import Plan
from benchmarks.postgres.server import database
from benchmarks.program import Program, ours
from benchmarks.programs.partition_program import QUEUES
from benchmarks.quota import check_quota, limited
from benchmarks.redis.server import SETTINGS
from benchmarks.running import call, cpu_of, first, working
from holdfast import Holdfast
from holdfast.model.partition import as_url, layout
from tests.servers.postgres import Postgres
from tests.servers.redis import Redis
from tests.servers.redis_binaries import find_redis
from tests.servers.run import OwnedRun

PROGRAM = Program(ours("benchmarks.programs.partition_program"), "")
CALLERS = 100
POLL = 0.01
LEAST_SEEN = 0.01
"""The system counts CPU time in steps of so many seconds."""
ENQUEUED = "enqueued/s"
BUSIEST = "busiest server CPU µs/job"
ONE, THREE = "one, 3 processes", "three, 3 processes"
ONE_SMALL, THREE_SMALL = "one small server", "three small servers"
SMALL_DATABASE, SMALL_SERVER = 0.1, 0.05
"""How much of a core a small server has."""

Stores = tuple[str, list[int]]
"""The URL, and the processes of servers that are our own."""

At = Callable[[Server, int], AbstractAsyncContextManager[Stores]]


@asynccontextmanager
async def _small_databases(_: Server, count: int) -> AsyncGenerator[Stores]:
    """So many servers of our own, each with a small part of a core."""
    run = OwnedRun()
    try:
        made = [Postgres.make(run, f"bench-{number}") for number in range(count)]
        with limited([server.pid for server in made], SMALL_DATABASE):
            yield _url([server.url for server in made]), []
    finally:
        run.close()


@asynccontextmanager
async def _small_servers(server: Server, count: int) -> AsyncGenerator[Stores]:
    async with _servers(server, count) as (url, pids):
        with limited(pids, SMALL_SERVER):
            yield url, pids


@asynccontextmanager
async def _databases(server: Server, count: int) -> AsyncGenerator[Stores]:
    """So many databases of the one server."""
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(database(server)) for _ in range(count)]
        yield _url(urls), []


@asynccontextmanager
async def _servers(_: Server, count: int) -> AsyncGenerator[Stores]:
    """So many servers of our own, because what each of them spends is measured."""
    run = OwnedRun()
    try:
        made = [Redis.make(run, find_redis(run), f"bench-{number}", **SETTINGS) for number in range(count)]
        yield _url([server.url for server in made]), [server.pid for server in made]
    finally:
        run.close()


def _url(urls: Sequence[str]) -> str:
    """The store: one as it is, several as partitions that have as many queues each."""
    if len(urls) == 1:
        return urls[0]
    rules = [(queue, f"p{place % len(urls)}") for place, queue in enumerate(QUEUES)]
    return as_url(layout({f"p{place}": url for place, url in enumerate(urls)}, queues=rules))


def work(plan: Plan, place: Place, *, at: At, partitions: int, processes: int) -> Figures:
    count = plan.redis_jobs if at in (_servers, _small_servers) else plan.pg_jobs
    if at in (_small_databases, _small_servers):
        count //= 4
    return asyncio.run(_work(at(place.server, partitions), count, processes))


async def _work(at: AbstractAsyncContextManager[Stores], count: int, processes: int) -> Figures:
    async with at as (url, servers):
        await call(PROGRAM, "setup", url)
        filled = max(CALLERS, count // 4)
        filling, _ = await call(PROGRAM, "enqueue", url, filled, CALLERS)
        await call(PROGRAM, "fill", url, count)
        async with working(PROGRAM, url, processes) as workers, Holdfast(url, log_level="error") as app:
            await first(workers)
            cpu_begun = cpu_of(workers)
            servers_begun = [tree_cpu(pid) for pid in servers]
            while (await app.stats()).queued:  # noqa: ASYNC110  it is the store that knows
                await asyncio.sleep(POLL)
            while (await app.stats()).in_progress:  # noqa: ASYNC110  it is the store that knows
                await asyncio.sleep(POLL)
            ended = time.monotonic_ns()
            cpu = cpu_of(workers) - cpu_begun
            spent = [tree_cpu(pid) - begun for pid, begun in zip(servers, servers_begun, strict=True)]
            began = min(worker.first for worker in workers if worker.first is not None)
    done = count + filled
    figures = {RATE: done / (ended - began) * 1e9, CPU: cpu / done * 1e6, ENQUEUED: filled / filling}
    return figures | {BUSIEST: max(*spent, LEAST_SEEN) / done * 1e6} if spent else figures


def _case(prefix: str, suite: str, at: At, what: str) -> Case:
    return Case(
        name=f"{prefix}-partition",
        title=f"no-op jobs of twelve queues on one {what} and on three, with as many worker processes",
        suite=suite,
        usual=False,
        sides=(
            Side("one, 1 process", partial(work, at=at, partitions=1, processes=1)),
            Side("three, 1 process", partial(work, at=at, partitions=3, processes=1)),
            Side(ONE, partial(work, at=at, partitions=1, processes=3)),
            Side(THREE, partial(work, at=at, partitions=3, processes=3)),
        ),
    )


def _small_case(prefix: str, suite: str, at: At, what: str) -> Case:
    return Case(
        name=f"{prefix}-small-partition",
        title=f"the same on one {what} with a small part of a core, and on three",
        suite=suite,
        usual=False,
        sides=tuple(
            Side(name, partial(work, at=at, partitions=count, processes=2), install=check_quota)
            for name, count in ((ONE_SMALL, 1), (THREE_SMALL, 3))
        ),
        goals=(
            Goal(
                text="three small servers: at least 2 × the rate of one",
                side=THREE_SMALL,
                figure=RATE,
                over=(ONE_SMALL,),
                at_least=2,
            ),
        ),
    )


POSTGRES = (
    _case("pg", "postgres", _databases, "PostgreSQL database"),
    _small_case("pg", "postgres", _small_databases, "PostgreSQL server"),
)
REDIS = (
    _case("redis", "redis", _servers, "Redis server"),
    _small_case("redis", "redis", _small_servers, "Redis server"),
)
