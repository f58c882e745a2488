"""Telling others that there may be work: at once in this process, by NOTIFY elsewhere, never too often.

A commit with a NOTIFY takes a lock that all such commits of the server share, so a session sends at most one
in WINDOW seconds. What comes sooner is told by one more at the window's end, so nothing stays untold for
longer.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from holdfast.model.errors import StoreError
from holdfast.stores.listeners import Listeners
from holdfast.stores.marks import process_mark
from holdfast.stores.postgres.database import Database
from holdfast.stores.postgres.queries import Queries

WINDOW: Final = 0.005

_log = logging.getLogger("holdfast.store")


class Bell:
    """The bell of one session."""

    def __init__(self, database: Database, queries: Queries, channel: str, listeners: Listeners) -> None:
        self._database = database
        self._queries = queries
        self._channel = channel
        self._listeners = listeners
        self._loop = asyncio.get_running_loop()
        self._last = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self._sending: asyncio.Task[None] | None = None

    def strike(self) -> str | None:
        """What the next statement shall tell, channel and sender; None if that would be too soon."""
        if not self._database.address.notify:
            return None
        now = self._loop.time()
        if now - self._last < WINDOW:
            return None
        self._last = now
        return f"{self._channel} {process_mark()}"

    def struck(self, told: str | None) -> None:
        """Says that a statement was committed and what it told.

        Wakes this process, and others later if they were not told.
        """
        self._listeners.wake()
        if told is None and self._timer is None and self._database.address.notify:
            self._timer = self._loop.call_at(self._last + WINDOW, self._send)

    def spared(self) -> None:
        """Says that a statement was committed and had nothing to tell, so that the next one may."""
        self._last = float("-inf")

    async def ring(self) -> None:
        """Wakes everybody, by a statement of its own."""
        told = self.strike()
        if told is not None:
            await self._database.value(self._queries.notify, *told.split())
        self.struck(told)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._send()
        if self._sending is not None:
            await asyncio.wait([self._sending])

    def _send(self) -> None:
        self._timer = None
        self._last = self._loop.time()
        self._sending = self._loop.create_task(self._notify())

    async def _notify(self) -> None:
        try:
            await self._database.value(self._queries.notify, self._channel, process_mark())
        except StoreError as error:
            # Only a hint: whoever was to hear it polls.
            _log.debug("wake-up not sent", extra={"fields": {"error": str(error)}})
