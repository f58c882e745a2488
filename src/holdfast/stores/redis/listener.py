"""The connection that listens, while anybody in this process wants to be woken.

Every time it listens anew it wakes everybody, because what was told meanwhile was missed.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable
from typing import Final

from holdfast.stores.listeners import Listeners
from holdfast.stores.redis.bell import process_mark
from holdfast.stores.redis.database import Database
from holdfast.stores.redis.wire import FAULTS, Wire
from holdfast.stores.waiters import Waiters

IDLE_SECONDS: Final = 30.0
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0

_log = logging.getLogger("holdfast.store")


class RedisWakeups:
    """Wake-ups of one namespace for the event loop of one session."""

    def __init__(self, database: Database, listeners: Listeners, waiters: Waiters) -> None:
        self._database = database
        self._listeners = listeners
        self._waiters = waiters
        self.is_deaf = not database.address.notify
        """Whether it is known that nothing will be heard."""
        self._loop = asyncio.get_running_loop()
        self._wanted = 0
        self._task: asyncio.Task[None] | None = None

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        end = self._listeners.add(wake)
        end_hearing = self.hear()

        def stop() -> None:
            end()
            end_hearing()

        return stop

    def hear(self) -> Callable[[], None]:
        """Keeps the connection while it is wanted; what it gives back ends that."""
        self._call(self._begin)
        is_over = False

        def stop() -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                self._call(self._end)

        return stop

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _call(self, step: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and the connection with it
            self._loop.call_soon_threadsafe(step)

    def _begin(self) -> None:
        self._wanted += 1
        if self._database.address.notify and (self._task is None or self._task.done()):
            self._task = self._loop.create_task(self._serve())

    def _end(self) -> None:
        self._wanted -= 1

    async def _serve(self) -> None:
        """Listens until nobody has wanted it for a while."""
        pause = FIRST_PAUSE
        while self._wanted:
            try:
                wire = await self._database.finder.open(self._heard)
                try:
                    await self._hear(wire)
                finally:
                    await wire.end()
                pause = FIRST_PAUSE
            except FAULTS as error:
                fields = {"error": str(error) or type(error).__name__}
                _log.debug("listening ended, or cannot begin yet", extra={"fields": fields})
                self.is_deaf = True
                pause = min(LONGEST_PAUSE, pause * 2)
            if self._wanted:
                await asyncio.sleep(random.uniform(0.5, 1) * pause)

    async def _hear(self, wire: Wire) -> None:
        """Listens while the connection lasts and somebody wants it."""
        async with asyncio.timeout(self._database.address.patience):
            await wire.ask("SUBSCRIBE", self._database.prefix + b"wake")
            await wire.ask("SUBSCRIBE", self._database.prefix + b"turn")
        self.is_deaf = False
        self._listeners.wake()
        self._waiters.wake_all()
        while self._wanted and wire.is_open:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(IDLE_SECONDS):
                    await asyncio.shield(wire.gone)
            if wire.is_open:
                # A connection that was cut without a word is noticed only by asking.
                async with asyncio.timeout(self._database.address.patience):
                    await wire.ask("PING")

    def _heard(self, channel: bytes, told: bytes) -> None:
        if channel.endswith(b"turn"):
            teller, _, owner = told.decode().partition(" ")
            if teller != self._waiters.mark:
                self._waiters.wake([owner])
        elif told != process_mark():
            self._listeners.wake()
