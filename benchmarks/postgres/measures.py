"""What is measured of each side, alike for all. Every measurement has a database of its own."""

import asyncio
import time

from benchmarks.case import CPU, RATE, SERVER_CPU, Figures, Place
from benchmarks.plan import Plan
from benchmarks.postgres.server import connected, database, spent
from benchmarks.program import Program
from benchmarks.running import Worker, call, cpu_of, first, latencies, working

WAL = "WAL bytes/job"
COMMITS = "commits/1,000 jobs"
DEAD = "dead tuples/job"
CALLERS = 100
POLL = 0.002


def work(plan: Plan, place: Place, *, program: Program, processes: int = 1) -> Figures:
    """Jobs that are stored already, from the first one's start until the store shows none unfinished."""
    return asyncio.run(_work(place, program, plan.pg_jobs * processes, processes))


def enqueue(plan: Plan, place: Place, *, program: Program, is_slow: bool = False) -> Figures:
    """A hundred callers at once, each waiting for its own answer; connections are open before."""
    count = plan.pg_slow_enqueued if is_slow else plan.pg_enqueued
    return asyncio.run(_enqueue(place, program, count, "enqueue", CALLERS))


def bulk(plan: Plan, place: Place, *, program: Program) -> Figures:
    """A thousand a call, one call after the other."""
    return asyncio.run(_enqueue(place, program, plan.pg_bulk, "fill"))


def latency(plan: Plan, place: Place, *, program: Program) -> Figures:
    """One job every 20 ms from another process to an idle worker, from just before the call to its start."""
    return asyncio.run(_latency(place, program, plan.pg_probes))


async def _work(place: Place, program: Program, count: int, processes: int) -> Figures:
    server = place.server
    async with database(server) as url:
        await call(program, "setup", url)
        await call(program, "fill", url, count)
        async with connected(url) as connection:
            await connection.execute("ANALYZE")
        before = await spent(url)
        async with working(program, url, processes) as workers:
            await first(workers)
            cpu_begun, server_begun = cpu_of(workers), server.cpu()
            polls, ended = await _finished(url, program, workers, count)
            cpu, server_cpu = cpu_of(workers) - cpu_begun, server.cpu() - server_begun
            begun = min(worker.first for worker in workers if worker.first is not None)
        after = await spent(url)
    figures = {RATE: count / (ended - begun) * 1e9, CPU: cpu / count * 1e6}
    if server.pid is not None:
        figures[SERVER_CPU] = server_cpu / count * 1e6
    return figures | {
        WAL: (after.wal - before.wal) / count,
        COMMITS: (after.commits - before.commits - polls) / count * 1_000,
        DEAD: (after.dead - before.dead) / count,
    }


async def _finished(url: str, program: Program, workers: list[Worker], count: int) -> tuple[int, int]:
    """How often the store was asked, and the instant when it showed none unfinished.

    It is asked only when most have run, because asking costs it.
    """
    asking_from = count - program.told_each * len(workers)
    polls = 0
    async with connected(url) as connection:
        await connection.execute(program.unfinished)
        while sum(worker.ran for worker in workers) < asking_from:
            await first(workers)
        while await connection.fetchval(program.unfinished):
            polls += 1
            await asyncio.sleep(POLL)
        return polls, time.monotonic_ns()


async def _enqueue(place: Place, program: Program, count: int, verb: str, *callers: int) -> Figures:
    server = place.server
    async with database(server) as url:
        await call(program, "setup", url)
        before = await spent(url)
        server_begun = server.cpu()
        wall, cpu = await call(program, verb, url, count, *callers)
        server_cpu = server.cpu() - server_begun
        after = await spent(url)
    figures = {RATE: count / wall, CPU: cpu / count * 1e6}
    if server.pid is not None:
        figures[SERVER_CPU] = server_cpu / count * 1e6
    return figures | {WAL: (after.wal - before.wal) / count}


async def _latency(place: Place, program: Program, count: int) -> Figures:
    async with database(place.server) as url:
        await call(program, "setup", url)
        return await latencies(program, url, count)
