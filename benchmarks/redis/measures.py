"""What is measured of each side, alike for all. Every measurement begins with an empty database."""

import asyncio
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from benchmarks.case import CPU, RATE, SERVER_CPU, Figures, Place
from benchmarks.engine import Server
from benchmarks.plan import Plan
from benchmarks.program import Program
from benchmarks.redis.server import emptied, memory, with_functions
from benchmarks.running import Worker, call, first, latencies, working

WAITING = "bytes/waiting job"
FINISHED = "bytes/finished job"
ONE = "pairs/s, one lock"
SERVED = "of 50 had the one lock"
MANY = "pairs/s, 50 locks"
PAIR_CPU = "CPU µs/pair"
PAIR_SERVER_CPU = "server CPU µs/pair"
CALLERS = 100
CONTENDERS = 50
POLL = 0.002


def work(
    plan: Plan, place: Place, *, program: Program, part: float | None = None, functions: bool = False
) -> Figures:
    """Jobs that are stored already, from the first one's start until the store shows none unfinished.

    A slow side gets its part of the slow sides' jobs, and one that needs `functions` a server that has them.
    The memory of finished jobs is what is left when the worker has ended.
    """
    count = plan.redis_jobs if part is None else max(100, int(plan.redis_slow * part))
    with _server(place, functions=functions) as server:
        return asyncio.run(_work(server, program, count))


def enqueue(plan: Plan, place: Place, *, program: Program, is_slow: bool = False) -> Figures:
    """A hundred callers at once, each waiting for its own answer; connections are open before."""
    return asyncio.run(_enqueue(place, program, plan.redis_slow if is_slow else plan.redis_jobs // 2))


def latency(plan: Plan, place: Place, *, program: Program, functions: bool = False) -> Figures:
    """One job every 20 ms from another process to an idle worker, from just before the call to its start."""
    with _server(place, functions=functions) as server:
        return asyncio.run(_latency(server, program, plan.redis_probes))


def locks(plan: Plan, place: Place, *, program: Program) -> Figures:
    """Fifty contenders in one process that take and release: all the same lock, then each one of its own."""
    return asyncio.run(_locks(place, program, int(plan.redis_seconds * 1_000)))


def _server(place: Place, *, functions: bool) -> AbstractContextManager[Server]:
    return with_functions(place.server) if functions else nullcontext(place.server)


async def _work(server: Server, program: Program, count: int) -> Figures:
    async with emptied(server) as client:
        empty = await memory(client)
        await call(program, "fill", server.url, count)
        waiting = await memory(client)
        async with working(program, server.url) as workers:
            await first(workers)
            (worker,) = workers
            cpu_begun, server_begun = worker.cpu(), server.cpu()
            ended = await _finished(client, program, worker, count)
            cpu, server_cpu = worker.cpu() - cpu_begun, server.cpu() - server_begun
            assert worker.first is not None
            rate = count / (ended - worker.first) * 1e9
        finished = await memory(client)
    figures = {RATE: rate, CPU: cpu / count * 1e6}
    if server.pid is not None:
        figures[SERVER_CPU] = server_cpu / count * 1e6
    return figures | {WAITING: (waiting - empty) / count, FINISHED: max(0, finished - empty) / count}


async def _finished(client: Any, program: Program, worker: Worker, count: int) -> int:
    """The instant when the store showed none unfinished.

    It is asked only when most have run, because asking costs it.
    """
    asking_from = count - program.told_each * program.bodies
    while worker.ran < asking_from:
        await worker.news()
    while await client.eval(program.unfinished, 0):  # noqa: ASYNC110  it is the server that knows
        await asyncio.sleep(POLL)
    return time.monotonic_ns()


async def _enqueue(place: Place, program: Program, count: int) -> Figures:
    server = place.server
    async with emptied(server):
        server_begun = server.cpu()
        wall, cpu = await call(program, "enqueue", server.url, count, CALLERS)
        server_cpu = server.cpu() - server_begun
    figures = {RATE: count / wall, CPU: cpu / count * 1e6}
    return figures if server.pid is None else figures | {SERVER_CPU: server_cpu / count * 1e6}


async def _latency(server: Server, program: Program, count: int) -> Figures:
    async with emptied(server):
        return await latencies(program, server.url, count)


async def _locks(place: Place, program: Program, milliseconds: int) -> Figures:
    server = place.server
    async with emptied(server):
        wall, _, pairs, served = await call(program, "locks", server.url, milliseconds, CONTENDERS, 1)
        figures = {ONE: pairs / wall, SERVED: served}
        server_begun = server.cpu()
        wall, cpu, pairs, _ = await call(program, "locks", server.url, milliseconds, CONTENDERS, CONTENDERS)
        server_cpu = server.cpu() - server_begun
        figures |= {MANY: pairs / wall, PAIR_CPU: cpu / pairs * 1e6}
    return figures if server.pid is None else figures | {PAIR_SERVER_CPU: server_cpu / pairs * 1e6}
