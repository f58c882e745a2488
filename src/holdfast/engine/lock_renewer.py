"""The thread that renews locks, with an event loop and a store session of its own.

No user's code runs here, save listeners of notices, so a body that blocks its event loop keeps its locks. One
serves all locks of an application in this process.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.engine import surroundings
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
        self._leases: dict[LockLease, None] = {}
        self._calls: dict[asyncio.Task[None], list[LockLease]] = {}
        self._join: Callable[[], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        self._connecting: asyncio.Task[Session] | None = None
        self._next = NEVER
        self._is_stopping = False
        self._tell_end: Callable[[], object] | None = None

    def add(self, lease: LockLease) -> None:
        """Keeps the lease from now on. From any thread."""
        with self._guard:
            self._leases[lease] = None
            if self._join is None:
                self._is_stopping = False
                self._join = surroundings.start_loop(self._serve, self._over, name="holdfast-locks")
            elif lease.beat_due < self._next:
                self._poke()

    def discard(self, lease: LockLease) -> None:
        """Keeps the lease no longer. If it is lost by then, that is told. From any thread."""
        with self._guard:
            was_kept = lease in self._leases
            self._leases.pop(lease, None)
        if was_kept and lease.lost:
            log.error("lock lost", extra={"fields": lease.facts()})
            if self._notices:
                self._notices.tell("lock_lost", **lease.facts())

    async def stop(self) -> None:
        """Ends the thread. One that hangs in the store is left behind: a daemon holds up nothing."""
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        with self._guard:
            join = self._join
            if join is None:
                return
            self._tell_end = lambda: loop.call_soon_threadsafe(ended.set)
            self._is_stopping = True
            self._poke()
        try:
            async with asyncio.timeout(PATIENCE):
                await ended.wait()
            join()
        except TimeoutError:
            log.warning("the renewal of locks does not end")

    def _poke(self) -> None:
        if self._loop is not None and self._wake is not None:
            self._loop.call_soon_threadsafe(self._wake.set)

    def _over(self, failure: BaseException | None) -> None:
        if failure is not None:
            log.error("locks are no longer renewed", exc_info=failure)
        with self._guard:
            left = list(self._leases)
            self._join = self._loop = self._wake = self._connecting = None
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
                self._look()
                under_way = self._under_way()
                with self._guard:
                    # What is added from here on pokes, if it comes first.
                    wake.clear()
                    times = [
                        lease.trust_until if lease in under_way else min(lease.beat_due, lease.trust_until)
                        for lease in self._leases
                    ]
                    self._next = min(times, default=NEVER)
                    is_stopping = self._is_stopping
                if not is_stopping:
                    await _wait(wake, self._next)
        finally:
            for call in self._calls:
                call.cancel()
            if self._calls:
                await asyncio.wait(self._calls, timeout=PATIENCE)
            if self._connecting is not None:
                await self._disconnect(self._connecting)

    def _look(self) -> None:
        """Gives up what cannot be trusted any more, and begins to renew what is due.

        One call for all of the same length: none waits for the answer to another's.
        """
        with self._guard:
            leases = list(self._leases)
        for lease in [lease for lease in leases if lease.lost]:
            leases.remove(lease)
            self._lose(lease)
        moment, under_way = surroundings.now(), self._under_way()
        groups: defaultdict[int, list[LockLease]] = defaultdict(list)
        for lease in leases:
            if lease not in under_way and lease.beat_due - EARLY * lease.terms.beat <= moment:
                groups[lease.ttl].append(lease)
        for group in groups.values():
            if any(lease.beat_due <= moment for lease in group):
                call = asyncio.create_task(self._renew(group))
                self._calls[call] = group
                call.add_done_callback(self._ended)

    def _ended(self, call: asyncio.Task[None]) -> None:
        del self._calls[call]
        if self._wake is not None:
            self._wake.set()

    def _under_way(self) -> set[LockLease]:
        return {lease for group in self._calls.values() for lease in group}

    async def _renew(self, due: list[LockLease]) -> None:
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect())
        connecting = self._connecting
        first_end = min(lease.trust_until for lease in due)
        holds = [
            LockHold(name=lease.name, owner=lease.owner, token=lease.token, ttl=lease.ttl) for lease in due
        ]
        try:
            async with asyncio.timeout(min(due[0].terms.patience, first_end - surroundings.now())):
                # A connection that takes long is not begun anew each time.
                session = await asyncio.shield(connecting)
                sent = surroundings.now()
                answers = list(zip(due, await session.locks.renew(holds), strict=True))
        except Exception as error:  # noqa: BLE001  whatever it was, the leases end if it lasts
            if connecting.done() and connecting.exception() is not None and self._connecting is connecting:
                self._connecting = None
            log.warning("locks not renewed", extra={"fields": {"locks": len(due), "error": _brief(error)}})
            for lease in due:
                lease.missed()
            return
        for lease, is_held in answers:
            if is_held:
                lease.extended(sent)
            else:
                self._lose(lease)

    def _lose(self, lease: LockLease) -> None:
        if not lease.is_released:
            lease.lose()
        self.discard(lease)

    async def _disconnect(self, connecting: asyncio.Task[Session]) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                await (await connecting).close()
        except Exception as error:  # noqa: BLE001  nothing is left to be done with it
            log.debug("session not closed", extra={"fields": {"error": _brief(error)}})


async def _wait(wake: asyncio.Event, until: float) -> None:
    try:
        left = max(0.0, until - surroundings.now())
        async with asyncio.timeout(None if until == NEVER else min(surroundings.longest_timer, left)):
            await wake.wait()
    except TimeoutError:
        pass


def _brief(error: Exception) -> str:
    return str(error) or type(error).__name__
