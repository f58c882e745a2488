"""A program of a side, as a child process."""

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from tempfile import TemporaryFile
from typing import IO

from benchmarks.engine import tree_cpu
from benchmarks.postgres.sides import Program

PATIENCE = 300
GRACE = 5


class Worker:
    """A running worker: what its jobs have told so far."""

    def __init__(self, process: Process, errors: IO[bytes]) -> None:
        self._process = process
        self._errors = errors
        self._told = asyncio.Event()
        self.ran = 0
        self.first: int | None = None
        self.started: list[tuple[int, int]] = []
        self._reader = asyncio.create_task(self._read())

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
            kind, one, other = line.split()
            if kind == b"start":
                self.started.append((int(one), int(other)))
            else:
                self.ran = int(one)
                self.first = self.first or int(other)
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


async def call(program: Program, verb: str, url: str, *numbers: int) -> tuple[float, float]:
    """Does one thing to its end: the seconds that it took, wall and CPU."""
    with TemporaryFile() as errors:
        line = program.line(verb, url, *numbers)
        process = await asyncio.create_subprocess_exec(
            *line, stdout=PIPE, stderr=errors, env=program.variables()
        )
        told, _ = await process.communicate()
        if process.returncode:
            raise RuntimeError(f"{verb} ended with {process.returncode}:\n{_tail(errors)}")
    done = [line.split() for line in told.splitlines() if line.startswith(b"done")]
    return (float(done[0][1]), float(done[0][2])) if done else (0.0, 0.0)


async def _start(program: Program, url: str, errors: IO[bytes]) -> Worker:
    line = program.line("work", url)
    process = await asyncio.create_subprocess_exec(*line, stdout=PIPE, stderr=errors, env=program.variables())
    return Worker(process, errors)


def _tail(errors: IO[bytes]) -> str:
    size = errors.seek(0, os.SEEK_END)
    errors.seek(max(0, size - 2_000))
    return errors.read().decode(errors="replace")
