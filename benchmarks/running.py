"""A program of a side, as a child process."""

import asyncio
import os
import signal
import statistics
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from tempfile import TemporaryFile
from typing import IO

from benchmarks.case import P50, P99, Figures
from benchmarks.engine import tree_cpu
from benchmarks.program import Program

PATIENCE = 300
GRACE = 5
WARM_UP = 5


class Worker:
    """A running worker: what its jobs have told so far."""

    def __init__(self, process: Process, errors: IO[bytes]) -> None:
        self._process = process
        self._errors = errors
        self._told = asyncio.Event()
        self._ran: dict[int, int] = {}
        self.first: int | None = None
        self.started: list[tuple[int, int]] = []
        self._reader = asyncio.create_task(self._read())

    @property
    def ran(self) -> int:
        """How many jobs have run, as far as it is known."""
        return sum(self._ran.values())

    async def news(self) -> None:
        """Waits until a job has told something since this was last called."""
        told = asyncio.create_task(self._told.wait())
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait([told, self._reader], return_when=asyncio.FIRST_COMPLETED)
        if not told.done():
            told.cancel()
            raise RuntimeError(f"a worker has ended by itself:\n{_tail(self._errors)}")
        self._told.clear()

    def cpu(self) -> float:
        return tree_cpu(self._process.pid)

    async def stop(self) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(GRACE):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        await self._reader

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            match line.split():
                case [b"start", sent, started]:
                    self.started.append((int(sent), int(started)))
                case [b"ran", count, instant, process]:
                    self._ran[int(process)] = int(count)
                    self.first = self.first or int(instant)
                case _:  # a peer's own greeting
                    continue
            self._told.set()


@asynccontextmanager
async def working(program: Program, url: str, processes: int = 1) -> AsyncGenerator[list[Worker]]:
    """Workers, ended afterwards."""
    with TemporaryFile() as errors:
        workers = [await _start(program, url, errors) for _ in range(processes)]
        try:
            yield workers
        finally:
            await asyncio.gather(*(worker.stop() for worker in workers))


async def call(program: Program, verb: str, url: str, *numbers: int) -> tuple[float, ...]:
    """Does one thing to its end: what it tells when it is done, first the seconds of it, wall and CPU."""
    with TemporaryFile() as errors:
        line = program.line(verb, url, *numbers)
        process = await asyncio.create_subprocess_exec(
            *line, stdout=PIPE, stderr=errors, env=program.variables()
        )
        told, _ = await process.communicate()
        if process.returncode:
            raise RuntimeError(f"{verb} ended with {process.returncode}:\n{_tail(errors)}")
    done = [line.split()[1:] for line in told.splitlines() if line.startswith(b"done")]
    return tuple(map(float, done[0])) if done else ()


async def first(workers: list[Worker]) -> None:
    """Waits until a job of any of them has told something."""
    news = [asyncio.create_task(worker.news()) for worker in workers]
    done, others = await asyncio.wait(news, return_when=asyncio.FIRST_COMPLETED)
    for task in others:
        task.cancel()
    for task in done:
        task.result()


def cpu_of(workers: list[Worker]) -> float:
    return sum(worker.cpu() for worker in workers)


async def latencies(program: Program, url: str, count: int) -> Figures:
    """From just before the call to the job's start: one each 20 ms from another process to an idle worker."""
    async with working(program, url) as (worker,):
        await call(program, "latency", url, WARM_UP)
        await _started(worker, WARM_UP)
        await call(program, "latency", url, count)
        await _started(worker, WARM_UP + count)
        waited = [(started - sent) / 1e6 for sent, started in worker.started[WARM_UP:]]
    hundredths = statistics.quantiles(waited, n=100, method="inclusive")
    return {P50: hundredths[49], P99: hundredths[98]}


async def _started(worker: Worker, count: int) -> None:
    while len(worker.started) < count:
        await worker.news()


async def _start(program: Program, url: str, errors: IO[bytes]) -> Worker:
    line = program.line("work", url)
    process = await asyncio.create_subprocess_exec(*line, stdout=PIPE, stderr=errors, env=program.variables())
    return Worker(process, errors)


def _tail(errors: IO[bytes]) -> str:
    size = errors.seek(0, os.SEEK_END)
    errors.seek(max(0, size - 2_000))
    return errors.read().decode(errors="replace")
