"""Blocking handlers, on threads. One that never ends keeps its slot; the worker shows it."""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from typing import Any

from holdfast.engine import surroundings
from holdfast.engine.apart import Helping
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
        self._hands: Helping[Work] = surroundings.make_hands(self._serve, name="holdfast-task")
        self._outcomes: deque[tuple[Hold, Outcome]] = deque()
        self._told = False

    def submit(
        self, context: contextvars.Context, hold: Hold, args: list[Any], kwargs: dict[str, Any]
    ) -> None:
        """Hands the work to a thread; raises RuntimeError if the system gives no thread for it.

        A fresh context, so that what one handler binds is not seen by the next one on its thread.
        """
        self._hands.put((context, (hold, args, kwargs)))

    def close(self) -> None:
        """Ends the idle threads; a busy one ends after its handler."""
        self._hands.close()

    def _serve(self, work: Work) -> bool:
        context, call = work
        outcome = context.run(self._run, *call)
        self._outcomes.append((call[0], outcome))
        if not self._told:
            self._told = True
            try:
                self._loop.call_soon_threadsafe(self._tell)
            except RuntimeError:
                return False  # The loop is closed: the process is ending, and the lease will expire.
        return True

    def _tell(self) -> None:
        self._told = False
        while self._outcomes:
            hold, outcome = self._outcomes.popleft()
            self._hands.is_free()
            self._ended(hold, outcome)
