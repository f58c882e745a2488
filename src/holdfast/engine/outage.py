"""An outage of the store: waited out with growing pauses, and told once when it begins and when it ends."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from typing import TypeVar

from holdfast.engine import surroundings
from holdfast.engine.notices import Notices
from holdfast.model.errors import OutcomeUnknown, StoreUnavailable

T = TypeVar("T")

log = logging.getLogger("holdfast.worker")

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0
"""So long at most does a worker not notice that its store is back."""


def pauses() -> Iterator[float]:
    """Seconds to wait before each further try, without end; of several workers no two keep step."""
    pause = FIRST_PAUSE
    while True:
        yield pause * random.uniform(0.5, 1)
        pause = min(LONGEST_PAUSE, pause * 2)


async def reached(
    stack: AsyncExitStack, outage: Outage, reach: Callable[[AsyncExitStack], Awaitable[T]]
) -> T:
    """What is reached, and opened on the stack. An outage is waited out; what cannot pass is raised."""
    waits = pauses()
    while True:
        try:
            async with AsyncExitStack() as attempt:
                found = await reach(attempt)
                stack.push_async_exit(attempt.pop_all())
        except (StoreUnavailable, OutcomeUnknown, TimeoutError) as error:
            outage.failed(error)
            await asyncio.sleep(next(waits))
        else:
            outage.succeeded()
            return found


class Outage:
    """What one worker knows of its store. `notice` is the kind that is told of every failed try."""

    def __init__(self, worker: str, notices: Notices, notice: str) -> None:
        self._worker = worker
        self._notices = notices
        self._notice = notice
        self.since: float | None = None
        """Since when it does not answer, by `surroundings.now`; None while it does."""

    def failed(self, error: Exception) -> None:
        if self.since is None:
            self.since = surroundings.now()
            fields = {"worker": self._worker, "error": str(error) or type(error).__name__}
            log.warning("store unreachable", extra={"fields": fields})
        if self._notices:
            self._notices.tell(self._notice, worker=self._worker, error=error)

    def succeeded(self) -> None:
        if self.since is not None:
            self.since = None
            log.info("store reachable again", extra={"fields": {"worker": self._worker}})
            if self._notices:
                self._notices.tell("store_back", worker=self._worker)
