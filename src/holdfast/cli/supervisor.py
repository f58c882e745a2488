"""`--processes N`: keeps N worker processes going, hands signals on, and ends with the worst exit code."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence

from holdfast.telemetry.logs import log

logger = logging.getLogger("holdfast.supervisor")

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
STEADY_SECONDS = 60.0
WRONG_USE = 2


class Supervisor:
    """Runs the same command several times, each with arguments of its `own`.

    A process that dies is started again, after a pause that doubles while it keeps dying. One that says its
    use or configuration is wrong ends them all. With `until_idle`, a process that ends well stays ended.
    """

    def __init__(
        self,
        command: Sequence[str],
        processes: int,
        *,
        until_idle: bool = False,
        own: Callable[[int], list[str]] = lambda index: [],
    ) -> None:
        self._command = command
        self._own = own
        self._processes = processes
        self._until_idle = until_idle
        self._children: dict[int, Process] = {}
        self._signals: list[signal.Signals] = []
        self._stopping = asyncio.Event()

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._forward, number)
        keepers = [asyncio.create_task(self._keep(index)) for index in range(self._processes)]
        try:
            return max(await asyncio.gather(*keepers))
        finally:
            for child in self._children.values():
                child.kill()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    async def _keep(self, index: int) -> int:
        """Keeps one process going until it may end; its last exit code."""
        pause = FIRST_PAUSE
        while True:
            begun = time.monotonic()
            code = await self._run_once(index)
            if self._stopping.is_set() or (self._until_idle and code == 0):
                return code
            if code == WRONG_USE:
                self._forward(signal.SIGTERM)
                return code
            steady = time.monotonic() - begun >= STEADY_SECONDS
            pause = FIRST_PAUSE if steady else min(pause * 2, LONGEST_PAUSE)
            log(logger, logging.WARNING, "worker process ended, starting another", code=code, pause=pause)
            try:
                async with asyncio.timeout(pause):
                    await self._stopping.wait()
                return code
            except TimeoutError:
                continue

    async def _run_once(self, index: int) -> int:
        # A session of its own: Ctrl-C reaches the whole terminal group, and a worker that got it from there
        # and from us as well would take it for the second signal, which forces.
        child = await asyncio.create_subprocess_exec(
            *self._command, *self._own(index), stdin=PIPE, start_new_session=True
        )
        self._children[index] = child
        log(logger, logging.INFO, "worker process started", pid=child.pid)
        for number in self._signals:
            child.send_signal(number)
        code = await child.wait()
        del self._children[index]
        if -code in self._signals:
            # It died of our signal before it could listen to it, so it had not begun anything.
            return 0
        return code if code >= 0 else 128 - code

    def _forward(self, number: signal.Signals) -> None:
        self._signals.append(number)
        self._stopping.set()
        for child in self._children.values():
            if child.returncode is None:
                child.send_signal(number)


def command_line(arguments: Sequence[str]) -> list[str]:
    """This program again, with other arguments."""
    return [sys.executable, "-m", "holdfast", *arguments]


def stop_with_parent() -> None:
    """Drains this process when the one that holds the other end of its standard input is gone."""

    def watch() -> None:
        while os.read(0, 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="holdfast-parent", daemon=True).start()
