"""What every program of a side does: `PROGRAM VERB URL [COUNT] [CALLERS]`.

Verbs: setup, fill, enqueue, latency, work. Lines that it prints:
`ran COUNT NS PID` (so many jobs have run by then in that process), `start SENT NS` (a job that carried when
it was sent), `done SECONDS CPU`. NS is the monotonic clock, which all processes of a machine share.

This module must run in the environments of the peers: it needs nothing but the standard library.
"""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from importlib.util import find_spec
from itertools import count as counter
from typing import Any, Protocol

BULK = 1_000
TOLD_EACH = int(os.environ.get("PEER_TOLD_EACH", "1000"))
PERIOD = 0.02


class Queue(Protocol):
    """A job queue under measurement. A job carries one number: when it was sent, or 0."""

    def opened(self) -> AbstractAsyncContextManager[object]:
        """What is outside of the measured time."""

    async def setup(self) -> None: ...
    async def push(self, sent: int) -> None: ...
    async def push_many(self, count: int) -> None: ...
    async def work(self) -> None:
        """Runs jobs, calling `Body.run` for each, until SIGTERM or a kill."""


class Body:
    """What every job does: nothing, but that the first and each TOLD_EACHth is told. Threads may share it."""

    def __init__(self) -> None:
        self._numbers = counter(1)

    def run(self, sent: int) -> None:
        if sent:
            say("start", sent, time.monotonic_ns())
            return
        number = next(self._numbers)
        if number == 1 or number % TOLD_EACH == 0:
            say("ran", number, time.monotonic_ns(), os.getpid())


def say(*words: object) -> None:
    """Tells a whole line at once, also where a peer has put something else in the place of `sys.stdout`."""
    os.write(1, f"{' '.join(map(str, words))}\n".encode())


def address() -> str:
    """The URL of this run, for modules that a peer's own command imports as well."""
    if "PEER_URL" not in os.environ:
        os.environ["PEER_URL"] = sys.argv[2]
    return os.environ["PEER_URL"]


def main(make: type[Any], run_worker: Callable[[Coroutine[Any, Any, None]], None] | None = None) -> None:
    """Does what the command line says with `make(url)`, on uvloop where that is installed.

    `run_worker` does so for a side whose own command sets up the process of a worker in its own way.
    """
    verb, url, *numbers = sys.argv[1:]
    count, callers = ([int(number) for number in numbers] + [1, 1])[:2]
    run = import_module("uvloop").run if find_spec("uvloop") else asyncio.run
    if verb == "work" and run_worker is not None:
        run = run_worker
    run(_perform(verb, make(url), count, callers))


async def _perform(verb: str, queue: Queue, count: int, callers: int) -> None:
    if verb == "setup":
        await queue.setup()
    elif verb == "work":
        await queue.work()
    else:
        async with queue.opened():
            if verb == "fill":
                await _timed(_fill(queue, count))
            elif verb == "enqueue":
                await _timed(push_each(queue, count, callers))
            elif verb == "latency":
                await _timed(_send(queue, count))
            else:
                raise SystemExit(f"{verb!r} is not a verb")


async def push_each(queue: Queue, count: int, callers: int = 50) -> None:
    """Pushes one by one, for queues that cannot push many."""
    remaining = iter(range(count))

    async def caller() -> None:
        for _ in remaining:
            await queue.push(0)

    await asyncio.gather(*(caller() for _ in range(callers)))


async def _timed(work: Coroutine[Any, Any, None]) -> None:
    begun, cpu_begun = time.perf_counter(), time.process_time()
    await work
    say("done", time.perf_counter() - begun, time.process_time() - cpu_begun)


async def _fill(queue: Queue, count: int) -> None:
    for start in range(0, count, BULK):
        await queue.push_many(min(BULK, count - start))


async def _send(queue: Queue, count: int) -> None:
    """One job each PERIOD seconds, whenever the one before it came back."""
    begun = time.perf_counter()
    for number in range(count):
        await asyncio.sleep(max(0.0, begun + number * PERIOD - time.perf_counter()))
        await queue.push(time.monotonic_ns())
