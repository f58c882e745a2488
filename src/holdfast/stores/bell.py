"""Telling others that there may be work: at once in this process, elsewhere by a message, never too often.

A session sends at most one message in WINDOW seconds; what comes sooner is told by one more at the window's
end, so nothing stays untold for longer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from holdfast.model.errors import StoreError
from holdfast.stores.listeners import Listeners

WINDOW: Final = 0.005

_log = logging.getLogger("holdfast.store")


class Bell:
    """The bell of one session. `tell` sends a message by a call of its own; None if none is ever sent."""

    def __init__(
        self, listeners: Listeners, message: str, tell: Callable[[str], Awaitable[Any]] | None
    ) -> None:
        self._listeners = listeners
        self._message = message
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._last = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self._sending: set[asyncio.Task[None]] = set()

    def strike(self) -> str | None:
        """What the next statement shall tell; None if that would be too soon."""
        if self._tell is None:
            return None
        now = self._loop.time()
        if now - self._last < WINDOW:
            return None
        self._last = now
        return self._message

    def struck(self, told: str | None) -> None:
        """Says that a statement was committed and what it told.

        Wakes this process, and others later if they were not told.
        """
        self._listeners.wake()
        if told is None and self._timer is None and self._tell is not None:
            self._timer = self._loop.call_at(self._last + WINDOW, self._end_window)

    def spared(self) -> None:
        """Says that a statement was committed and had nothing to tell, so that the next one may."""
        self._last = float("-inf")

    async def close(self) -> None:
        """Sends what is still untold, and waits for that."""
        if self._timer is not None:
            self._timer.cancel()
            self._send()
        if self._sending:
            await asyncio.wait(self._sending)

    async def ring(self) -> None:
        """Wakes everybody, by a call of its own."""
        told = self.strike()
        if told is not None and self._tell is not None:
            await self._tell(told)
        self.struck(told)

    def _end_window(self) -> None:
        """Tells others at the window's end; a later one if a statement has told them meanwhile."""
        ends = self._last + WINDOW
        if self._loop.time() < ends:
            self._timer = self._loop.call_at(ends, self._end_window)
        else:
            self._send()

    def _send(self) -> None:
        self._timer = None
        self._last = self._loop.time()
        task = self._loop.create_task(self._notify())
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _notify(self) -> None:
        try:
            if self._tell is not None:
                await self._tell(self._message)
        except StoreError as error:
            # Only a hint: whoever was to hear it polls.
            _log.debug("wake-up not sent", extra={"fields": {"error": str(error)}})
