"""What every program of a lock does: `PROGRAM locks URL MILLISECONDS CONTENDERS LOCKS`.

So many contenders take and release, again and again, each the lock of its turn. When the time is up it prints
`done SECONDS CPU PAIRS SERVED`, the last being how many contenders had a lock at all, and ends whatever still
waits. Two inside of one lock at once is an error.

This module must run in the environments of the peers: it needs nothing but the standard library.
"""

import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from importlib import import_module
from importlib.util import find_spec
from threading import Thread
from typing import Any

from benchmarks.programs.speaking import say


class Tally:
    """Counts pairs from now on, and sees to it that a lock keeps others out."""

    def __init__(self) -> None:
        self._inside: set[str] = set()
        self._pairs: Counter[int] = Counter()
        self._begun = time.perf_counter()
        self._cpu_begun = time.process_time()

    def enter(self, name: str) -> None:
        if name in self._inside:
            end(f"two are inside of the lock {name}")
        self._inside.add(name)

    def leave(self, name: str, contender: int) -> None:
        self._inside.remove(name)
        self._pairs[contender] += 1

    def tell(self) -> None:
        wall, cpu = time.perf_counter() - self._begun, time.process_time() - self._cpu_begun
        say("done", wall, cpu, self._pairs.total(), len(self._pairs))


def end(problem: str = "") -> None:
    """Ends the process at once, whatever its threads are doing."""
    if problem:
        os.write(2, f"{problem}\n".encode())
    os._exit(1 if problem else 0)


def run_async(
    make: Callable[[str], Coroutine[Any, Any, Callable[[str], AbstractAsyncContextManager[object]]]],
) -> None:
    """`make(url)` connects, and gives what makes a lock of a name."""
    run = import_module("uvloop").run if find_spec("uvloop") else asyncio.run
    run(_contend(make))


async def _contend(
    make: Callable[[str], Coroutine[Any, Any, Callable[[str], AbstractAsyncContextManager[object]]]],
) -> None:
    url, seconds, names = _given()
    lock = await make(url)
    tally = Tally()

    async def contend(contender: int, name: str) -> None:
        while True:
            async with lock(name):
                tally.enter(name)
                tally.leave(name, contender)

    tasks = [asyncio.create_task(contend(*each)) for each in enumerate(names)]
    done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    tally.tell()
    end(repr([task.exception() for task in done]) if done else "")


def run_threads(make: Callable[[str], Callable[[str], AbstractContextManager[object]]]) -> None:
    """The same for locks of blocking code: a thread for each contender."""
    url, seconds, names = _given()
    lock = make(url)
    tally = Tally()

    def contend(contender: int, name: str) -> None:
        try:
            while True:
                with lock(name):
                    tally.enter(name)
                    tally.leave(name, contender)
        except Exception as error:  # noqa: BLE001  whatever it is, the measurement has failed
            end(repr(error))

    for each in enumerate(names):
        Thread(target=contend, args=each, daemon=True).start()
    time.sleep(seconds)
    tally.tell()
    end()


def _given() -> tuple[str, float, list[str]]:
    url, milliseconds, contenders, locks = sys.argv[2:6]
    return url, int(milliseconds) / 1_000, [f"bench-{n % int(locks)}" for n in range(int(contenders))]
