"""Telling others that there may be work: at once in this process, by PUBLISH elsewhere, never too often.

A script that makes work publishes it in the same step. So that many small calls do not wake everybody as
often, a session publishes at most once in WINDOW seconds; what comes sooner is told by one more message at
the window's end.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from holdfast.model.errors import StoreError
from holdfast.stores.listeners import Listeners
from holdfast.stores.marks import process_mark
from holdfast.stores.redis.database import Database

WINDOW: Final = 0.005

_log = logging.getLogger("holdfast.store")


class Bell:
    """The bell of one session."""

    def __init__(self, database: Database, listeners: Listeners) -> None:
        self._database = database
        self._listeners = listeners
        self._loop = asyncio.get_running_loop()
        self._last = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self._sending: asyncio.Task[None] | None = None

    @property
    def channel(self) -> bytes:
        return self._database.prefix + b"wake"

    def strike(self) -> bytes:
        """What the next script shall tell: who speaks; nothing if that would be too soon."""
        if not self._database.address.notify:
            return b""
        now = self._loop.time()
        if now - self._last < WINDOW:
            return b""
        self._last = now
        return process_mark().encode()

    def struck(self, told: bytes) -> None:
        """Says that a script was run and what it told.

        Wakes this process, and others later if they were not told.
        """
        self._listeners.wake()
        if not told and self._timer is None and self._database.address.notify:
            self._timer = self._loop.call_at(self._last + WINDOW, self._ring)

    def spared(self) -> None:
        """Says that a script was run and that there was nothing to tell, so that the next one may."""
        self._last = float("-inf")

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._send()
        if self._sending is not None:
            await asyncio.wait([self._sending])

    def _ring(self) -> None:
        """Tells others at the window's end; a later one if a script has told them meanwhile."""
        ends = self._last + WINDOW
        if self._loop.time() < ends:
            self._timer = self._loop.call_at(ends, self._ring)
        else:
            self._send()

    def _send(self) -> None:
        self._timer = None
        self._last = self._loop.time()
        self._sending = self._loop.create_task(self._publish())

    async def _publish(self) -> None:
        try:
            await self._database.ask("PUBLISH", self.channel, process_mark())
        except StoreError as error:
            # Only a hint: whoever was to hear it polls.
            _log.debug("wake-up not sent", extra={"fields": {"error": str(error)}})
