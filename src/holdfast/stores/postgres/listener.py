"""The connection that listens, while anybody in this process wants to be woken.

Every time it listens anew it wakes everybody, because what was told meanwhile was missed. Behind a pooler
that gives each transaction another server nothing would ever be heard: a trial call shows that, and the
workers poll.
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
from holdfast.stores.postgres.address import Address
from holdfast.stores.postgres.driver import FAULTS, Connection, connect
from holdfast.stores.postgres.handing import handed
from holdfast.stores.waiters import Waiters

TRIAL_SECONDS: Final = 5.0
IDLE_SECONDS: Final = 30.0
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0
TRIAL: Final = "trial"

_log = logging.getLogger("holdfast.store")


class PostgresWakeups(Hearing):
    """Wake-ups of one namespace for the event loop of one session."""

    def __init__(self, address: Address, ns: int, listeners: Listeners, waiters: Waiters) -> None:
        super().__init__(listeners, notify=address.notify)
        self._address = address
        self._channel = address.channel(ns)
        self._lock_channel = address.lock_channel(ns)
        self._waiters = waiters
        self._ear = f"hf.{secrets.token_hex(16)}"
        self._pid: int | None = None
        self._takers: tuple[Callable[[Handed], None], ...] = ()

    @property
    def ear(self) -> tuple[str | None, int]:
        """The channel on which the session hears of jobs that are handed to it, and the backend that listens.

        None as long as nobody would take them.
        """
        if self._pid is None or not self._takers or self.is_deaf:
            return None, 0
        return self._ear, self._pid

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
                connection = await connect(self._address)
            except FAULTS as error:
                _log.debug(
                    "cannot listen yet", extra={"fields": {"error": str(error) or type(error).__name__}}
                )
                await asyncio.sleep(random.uniform(0.5, 1) * pause)
                pause = min(LONGEST_PAUSE, pause * 2)
                continue
            try:
                if not await self._hear(connection):
                    return
                pause = FIRST_PAUSE
            except FAULTS as error:
                _log.debug("listening ended", extra={"fields": {"error": str(error) or type(error).__name__}})
                await asyncio.sleep(random.uniform(0.5, 1) * pause)
            finally:
                connection.terminate()

    async def _try(self) -> None:
        """Tells something by another connection: a pooler would bring back what a connection tells itself."""
        connection = await connect(self._address)
        try:
            await connection.execute("SELECT pg_notify($1, $2)", self._channel, f"{TRIAL}-{process_mark()}")
        finally:
            connection.terminate()

    async def _hear(self, connection: Connection) -> bool:
        """Listens while the connection lasts; False if it is of no use, because nothing is heard on it."""
        gone = asyncio.Event()
        tried = asyncio.Event()

        def heard(_connection: Connection, _pid: int, _channel: str, told: str) -> None:
            if told == f"{TRIAL}-{process_mark()}":
                tried.set()
            elif told != process_mark() and not told.startswith(TRIAL):
                self._own.wake()

        def called(_connection: Connection, _pid: int, _channel: str, owner: str) -> None:
            self._waiters.wake([owner])

        def taken(_connection: Connection, _pid: int, _channel: str, told: str) -> None:
            for take in self._takers:
                take(handed(told))

        def ended(_connection: Connection) -> None:
            self._pid = None
            gone.set()

        # What the driver was told when it connected may be a pooler's.
        pid = await connection.fetchval("SELECT pg_backend_pid()")
        connection.add_termination_listener(ended)
        await connection.add_listener(self._channel, heard)
        await connection.add_listener(self._lock_channel, called)
        await connection.add_listener(self._ear, taken)
        await self._try()
        self._own.wake()
        self._waiters.wake_all()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TRIAL_SECONDS):
                await tried.wait()
        if gone.is_set():
            return True
        self.is_deaf = not tried.is_set()
        if self.is_deaf:
            self._warn()
            return False
        self._let_stand(pid)
        while self._wanted and not gone.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(IDLE_SECONDS):
                    await gone.wait()
            if not gone.is_set():
                # A connection that was cut without a word is noticed only by asking.
                await connection.execute("SELECT 1")
        return True

    def _let_stand(self, pid: int) -> None:
        """From now on wants can stand: whoever has one may ask again."""
        self._pid = pid
        if self._takers:
            self._own.wake()

    def _warn(self) -> None:
        if not self._listeners.is_warned:
            self._listeners.is_warned = True
            fields = {"place": self._address.place}
            _log.warning(
                "wake-ups do not arrive, probably because of a pooler; polling", extra={"fields": fields}
            )
