"""The thread that renews locks, with an event loop and a store session of its own.

No user's code ever runs here, so a body that blocks its event loop keeps its locks. One serves all locks of
an application in this process.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.engine.hold import now
from holdfast.engine.lock_lease import LockLease
from holdfast.engine.notices import Notices
from holdfast.model.records import LockHold
from holdfast.store import Session

log = logging.getLogger("holdfast.lock")

EARLY = 0.5
"""What is due within that part of its time is renewed with what is due now, then and later."""

NEVER = float("inf")
PATIENCE = 5.0


class Renewer:
    """Starts with the first lease, and ends when it is stopped; what is then still held is lost."""

    def __init__(self, connect: Callable[[], Coroutine[Any, Any, Session]], notices: Notices) -> None:
        self._connect = connect
        self._notices = notices
        self._guard = threading.Lock()
        self._leases: set[LockLease] = set()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        self._connecting: asyncio.Task[Session] | None = None
        self._next = NEVER
        self._is_stopping = False
        self._tell_end: Callable[[], object] | None = None

    def add(self, lease: LockLease) -> None:
        """Keeps the lease from now on. From any thread."""
        with self._guard:
            self._leases.add(lease)
            if self._thread is None:
                self._is_stopping = False
                self._thread = threading.Thread(target=self._main, name="holdfast-locks", daemon=True)
                self._thread.start()
            elif lease.beat_due < self._next:
                self._poke()

    def discard(self, lease: LockLease) -> None:
        with self._guard:
            self._leases.discard(lease)

    async def stop(self) -> None:
        """Ends the thread. One that hangs in the store is left behind: a daemon holds up nothing."""
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        with self._guard:
            thread = self._thread
            if thread is None:
                return
            self._tell_end = lambda: loop.call_soon_threadsafe(ended.set)
            self._is_stopping = True
            self._poke()
        try:
            async with asyncio.timeout(PATIENCE):
                await ended.wait()
            thread.join()
        except TimeoutError:
            log.warning("the renewal of locks does not end")

    def _poke(self) -> None:
        if self._loop is not None and self._wake is not None:
            self._loop.call_soon_threadsafe(self._wake.set)

    def _main(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception:
            log.exception("locks are no longer renewed")
        finally:
            with self._guard:
                left = list(self._leases)
                self._leases.clear()
                self._thread = self._loop = self._wake = self._connecting = None
                self._next = NEVER
                tell_end, self._tell_end = self._tell_end, None
            for lease in left:
                self._lose(lease)
            if tell_end is not None:
                tell_end()

    async def _serve(self) -> None:
        wake = asyncio.Event()
        with self._guard:
            self._loop, self._wake = asyncio.get_running_loop(), wake
        try:
            while not self._is_stopping:
                await self._look()
                with self._guard:
                    # What is added from here on pokes, if it comes first.
                    wake.clear()
                    times = [min(lease.beat_due, lease.trust_until) for lease in self._leases]
                    self._next = min(times, default=NEVER)
                    is_stopping = self._is_stopping
                if not is_stopping:
                    await _wait(wake, self._next)
        finally:
            if self._connecting is not None:
                await self._disconnect(self._connecting)

    async def _look(self) -> None:
        """Gives up what cannot be trusted any more, and renews what is due."""
        with self._guard:
            leases = list(self._leases)
        for lease in [lease for lease in leases if lease.lost]:
            leases.remove(lease)
            self._lose(lease)
        moment = now()
        due = [lease for lease in leases if lease.beat_due - EARLY * lease.terms.beat <= moment]
        if any(lease.beat_due <= moment for lease in due):
            patience = min(lease.terms.patience for lease in due)
            await self._renew(due, min(patience, min(lease.trust_until for lease in leases) - moment))

    async def _renew(self, due: list[LockLease], patience: float) -> None:
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect())
        holds = [
            LockHold(name=lease.name, owner=lease.owner, token=lease.token, ttl=lease.ttl) for lease in due
        ]
        try:
            async with asyncio.timeout(patience):
                # A connection that takes long is not begun anew each time.
                session = await asyncio.shield(self._connecting)
                sent = now()
                answers = await session.locks.renew(holds)
        except Exception as error:  # noqa: BLE001  whatever it was, the leases end if it lasts
            if self._connecting.done() and self._connecting.exception() is not None:
                self._connecting = None
            log.warning("locks not renewed", extra={"fields": {"locks": len(due), "error": _brief(error)}})
            for lease in due:
                lease.missed()
            return
        for lease, is_held in zip(due, answers, strict=True):
            if is_held:
                lease.extended(sent)
            else:
                self._lose(lease)

    def _lose(self, lease: LockLease) -> None:
        self.discard(lease)
        if lease.is_released:
            return
        lease.lose()
        log.error("lock lost", extra={"fields": lease.facts()})
        if self._notices:
            self._notices.tell("lock_lost", **lease.facts())

    async def _disconnect(self, connecting: asyncio.Task[Session]) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                await (await connecting).close()
        except Exception as error:  # noqa: BLE001  nothing is left to be done with it
            log.debug("session not closed", extra={"fields": {"error": _brief(error)}})


async def _wait(wake: asyncio.Event, until: float) -> None:
    try:
        async with asyncio.timeout(None if until == NEVER else max(0.0, until - now())):
            await wake.wait()
    except TimeoutError:
        pass


def _brief(error: Exception) -> str:
    return str(error) or type(error).__name__
