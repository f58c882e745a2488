"""The connection that listens, while anybody in this process wants to be woken.

Every time it listens anew it wakes everybody, because what was told meanwhile was missed.
"""

import asyncio
import contextlib
import logging
import random
import secrets
from collections.abc import Callable
from typing import Final

from holdfast.model.records import Handed
from holdfast.stores.hearing import Hearing
from holdfast.stores.listeners import Listeners
from holdfast.stores.marks import process_mark
from holdfast.stores.redis.database import Database
from holdfast.stores.redis.handing import handed
from holdfast.stores.redis.wire import FAULTS, Wire
from holdfast.stores.waiters import Waiters

IDLE_SECONDS: Final = 30.0
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0

_log = logging.getLogger("holdfast.store")


class RedisWakeups(Hearing):
    """Wake-ups of one namespace for the event loop of one session.

    `ear` is where the session hears of jobs that are handed to it: empty as long as nobody would take them.
    """

    def __init__(self, database: Database, listeners: Listeners, waiters: Waiters) -> None:
        super().__init__(listeners, notify=database.address.notify)
        self._database = database
        self._waiters = waiters
        self._name = b"ear:" + secrets.token_hex(8).encode()
        self._takers: tuple[Callable[[Handed], None], ...] = ()

    @property
    def ear(self) -> bytes:
        return self._name if self._takers and not self.is_deaf else b""

    def receive(self, take: Callable[[Handed], None]) -> Callable[[], None]:
        self._takers = (*self._takers, take)

        def stop() -> None:
            self._takers = tuple(other for other in self._takers if other is not take)

        return stop

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
            await wire.ask("SUBSCRIBE", self._database.prefix + self._name)
        self.is_deaf = False
        self._own.wake()
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
        if channel.endswith(self._name):
            for take in self._takers:
                take(handed(told))
        elif channel.endswith(b"turn"):
            teller, _, owner = told.decode().partition(" ")
            if teller != self._waiters.mark:
                self._waiters.wake([owner])
        elif told.decode() != process_mark():
            self._own.wake()
