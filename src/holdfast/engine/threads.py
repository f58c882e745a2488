"""Blocking handlers, in daemon threads of our own.

Daemon, because a thread cannot be killed and must not keep a stopped process alive. A thread that never ends
keeps its slot; the worker shows it.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from holdfast.engine.hold import Hold
from holdfast.engine.runner import Ended
from holdfast.model.outcome import Outcome

Run = Callable[[Hold, list[Any], dict[str, Any]], Outcome]
Work = tuple[contextvars.Context, tuple[Hold, list[Any], dict[str, Any]]]


class Threads:
    """Runs work on up to as many threads as there is work at once; tells the outcome on the event loop."""

    def __init__(self, run: Run, ended: Ended) -> None:
        self._run = run
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[Work | None] = SimpleQueue()
        self._outcomes: deque[tuple[Hold, Outcome]] = deque()
        self._told = False
        self._size: int = 0
        self._busy: int = 0

    def submit(
        self, context: contextvars.Context, hold: Hold, args: list[Any], kwargs: dict[str, Any]
    ) -> None:
        """Hands the work to a thread; raises RuntimeError if the system gives no thread for it.

        A fresh context, so that what one handler binds is not seen by the next one on its thread.
        """
        if self._busy == self._size:
            name = f"holdfast-task-{self._size + 1}"
            threading.Thread(target=self._serve, name=name, daemon=True).start()
            self._size += 1
        self._busy += 1
        self._queue.put((context, (hold, args, kwargs)))

    def close(self) -> None:
        """Ends the idle threads; a busy one ends after its handler."""
        for _ in range(self._size):
            self._queue.put(None)

    def _serve(self) -> None:
        while True:
            work = self._queue.get()
            if work is None:
                return
            context, call = work
            outcome = context.run(self._run, *call)
            self._outcomes.append((call[0], outcome))
            del work, context, call, outcome
            if not self._told:
                self._told = True
                try:
                    self._loop.call_soon_threadsafe(self._tell)
                except RuntimeError:
                    return  # The loop is closed: the process is ending, and the lease will expire.

    def _tell(self) -> None:
        self._told = False
        while self._outcomes:
            hold, outcome = self._outcomes.popleft()
            self._busy -= 1
            self._ended(hold, outcome)
