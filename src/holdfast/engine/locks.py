"""Named locks: how they are asked for, waited for, and given back."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from holdfast.engine import surroundings
from holdfast.engine.identity import process_name
from holdfast.engine.lock_grant import Grant
from holdfast.engine.lock_lease import LockLease
from holdfast.engine.lock_renewer import Renewer
from holdfast.engine.notices import Notices
from holdfast.model.errors import LockTimeout, StoreError
from holdfast.model.locking import DEFAULT_TTL, check_lock_name, check_ttl, check_wait, place_of
from holdfast.model.records import LockAnswer, LockWish
from holdfast.model.timing import SECOND, Seconds
from holdfast.store import LockStore

log = logging.getLogger("holdfast.lock")

PATIENCE = 5.0
JITTER = 0.1
"""Nobody asks again before the time has come, and no two at the same moment."""


class Locks:
    """The locks of one namespace, for one event loop."""

    def __init__(self, store: LockStore, renewer: Renewer, notices: Notices) -> None:
        self._store = store
        self._renewer = renewer
        self._notices = notices
        self._waiting = 0
        self._endings: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def lock(
        self, name: str, ttl: Seconds = DEFAULT_TTL, wait: Seconds | None = None, *, holder: str = ""
    ) -> AsyncGenerator[Grant]:
        async with await self.acquire(name, ttl, wait, holder=holder) as grant:
            yield grant

    async def try_lock(self, name: str, ttl: Seconds = DEFAULT_TTL) -> Grant | None:
        try:
            return await self.acquire(name, ttl, 0)
        except LockTimeout:
            return None

    async def acquire(
        self, name: str, ttl: Seconds = DEFAULT_TTL, wait: Seconds | None = None, *, holder: str = ""
    ) -> Grant:
        """Waits in line for the lock; LockTimeout if it takes longer than `wait`.

        `holder` is what others are told of who holds it, by default this process.
        """
        name, length, most = check_lock_name(name), check_ttl(ttl), check_wait(wait)
        place = 0 if most == 0 else place_of(length)
        owner = f"{holder or process_name()}/{surroundings.token_hex(12)}"
        wish = LockWish(name=name, owner=owner, ttl=length, place=place)
        asking = _Asking(self._store, wish)
        began = surroundings.now()
        try:
            lease = await self._wait(asking, None if most is None else began + most / SECOND)
        except BaseException:
            self._begin(asking.give_up())
            raise
        waited = surroundings.now() - began
        if lease is None:
            if place or asking.is_granted:
                await self._done(asking.give_up())
            if self._notices:
                self._notices.tell("lock_timeout", lock=name, waited=waited)
            raise LockTimeout(f"lock {name} was not to be had within {waited:.3g} s: others hold or await it")
        self._renewer.add(lease)
        if self._notices:
            self._notices.tell("lock_acquired", lock=name, token=lease.token, waited=waited)
        return Grant(lease, self.end)

    async def close(self) -> None:
        """Waits a little until the store has heard of all that was given up."""
        if self._endings:
            await asyncio.wait(self._endings, timeout=PATIENCE)

    async def _wait(self, asking: _Asking, deadline: float | None) -> LockLease | None:
        """Asks until it is granted, or the time is over."""
        # To listen may cost a connection, which a lock that is free does not need.
        is_listening = self._waiting > 0
        self._waiting += 1
        stop = asking.listen() if is_listening else None
        try:
            while True:
                answer = await asking.ask()
                if isinstance(answer, LockLease):
                    return answer
                left = float("inf") if deadline is None else deadline - surroundings.now()
                if left <= 0:
                    return None
                if stop is None:
                    stop = asking.listen()  # and asks again, in case it was released meanwhile
                else:
                    await asking.pause(min(answer, left))
        finally:
            self._waiting -= 1
            if stop is not None:
                stop()

    async def end(self, lease: LockLease) -> None:
        """Gives back what is held, or was."""
        self._renewer.discard(lease)
        await self._done(self._release(lease))

    async def _release(self, lease: LockLease) -> None:
        try:
            await self._store.release(lease.name, lease.owner, lease.token)
        except StoreError as error:
            fields = {**lease.facts(), "error": str(error)}
            log.warning("lock not released; it expires", extra={"fields": fields})
        if self._notices and not lease.lost:
            self._notices.tell("lock_released", **lease.facts(), held=surroundings.now() - lease.since)

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Has it done, whatever becomes of the caller."""
        task = asyncio.create_task(work)
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)
        return task

    async def _done(self, work: Coroutine[Any, Any, None]) -> None:
        await asyncio.shield(self._begin(work))


class _Asking:
    """One wish on its way to the store. A call that was sent is never cut off, so none comes too late."""

    def __init__(self, store: LockStore, wish: LockWish) -> None:
        self._store = store
        self._wish = wish
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._call: asyncio.Task[LockAnswer] | None = None
        self.is_granted = False
        """Whether the store has granted it, even if the answer came too late to be trusted."""

    def listen(self) -> Callable[[], None]:
        return self._store.listen(self._wish.owner, self._wake)

    async def ask(self) -> LockLease | float:
        """The lease; or after how many seconds to ask again."""
        wish = self._wish
        self._woken.clear()
        sent = surroundings.now()
        self._call = self._loop.create_task(_acquire(self._store, wish))
        answer = await asyncio.shield(self._call)
        self.is_granted = answer.token is not None
        if answer.token is not None:
            lease = LockLease(wish.name, wish.owner, answer.token, wish.ttl, sent)
            return 0.0 if lease.lost else lease
        return min(answer.after, wish.place // 2) / SECOND * random.uniform(1, 1 + JITTER)

    async def pause(self, seconds: float) -> None:
        """Waits until it is woken, or the time has come."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()

    async def give_up(self) -> None:
        """Leaves the line, and gives back what was perhaps granted."""
        if self._call is None:
            return
        await asyncio.wait([self._call])
        if not self._call.cancelled():
            # Who asked has left, and what fails unheard would be logged as a defect.
            self._call.exception()
        try:
            await self._store.release(self._wish.name, self._wish.owner, None)
        except StoreError as error:
            log.debug("place in line not given up", extra={"fields": {"error": str(error)}})

    def _wake(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._woken.set)


async def _acquire(store: LockStore, wish: LockWish) -> LockAnswer:
    return await store.acquire(wish)
