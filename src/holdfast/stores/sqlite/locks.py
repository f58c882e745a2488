"""Locks.

In this process a release wakes the one whose turn it is. Other processes tell only that they wrote something,
and whoever waits here then looks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from threading import Lock

from holdfast.model.errors import StoreError
from holdfast.model.records import HeldLock, LockAnswer, LockHold, LockHolder, LockWish
from holdfast.stores.sqlite.answers import text
from holdfast.stores.sqlite.database import Database
from holdfast.stores.sqlite.transaction import Transaction

_log = logging.getLogger(__name__)


class SqliteLocks:
    """Locks of one namespace, for the event loop of one session."""

    def __init__(self, database: Database, ns: int) -> None:
        self._database = database
        self._ns = ns
        self._waiters = database.waiters[ns]
        self._loop = asyncio.get_running_loop()
        self._guard = Lock()
        self._is_asked = False
        self._looking: asyncio.Task[None] | None = None
        self._is_stale = False

    async def acquire(self, wish: LockWish) -> LockAnswer:
        return await self._database.write(self._ns, lambda tx: _acquire(tx, wish))

    async def renew(self, holds: Sequence[LockHold]) -> list[bool]:
        def work(tx: Transaction) -> list[bool]:
            return [
                tx.run(
                    "lock_renew", name=hold.name, owner=hold.owner, token=hold.token, ttl=hold.ttl
                ).rowcount
                > 0
                for hold in holds
            ]

        return await self._database.write(self._ns, work, urgent=True) if holds else []

    async def release(self, name: str, owner: str, token: int | None) -> None:
        def work(tx: Transaction) -> str | None:
            left = tx.run("line_leave", name=name, owner=owner).rowcount if token is None else 0
            freed = tx.run("lock_release", name=name, owner=owner, token=token).rowcount
            turn = tx.run("lock_turn", name=name).fetchone() if left or freed else None
            return None if turn is None else text(turn[0])

        self._waiters.wake([await self._database.write(self._ns, work)])

    async def holder(self, name: str) -> LockHolder | None:
        def work(tx: Transaction) -> LockHolder | None:
            held = tx.run("lock", name=name).fetchone()
            if held is None:
                return None
            return LockHolder(owner=text(held[0]), token=held[1], left=held[2] - tx.now)

        return await self._database.read(self._ns, work)

    async def held(self, after: str, limit: int) -> list[HeldLock]:
        def work(tx: Transaction) -> list[HeldLock]:
            return [
                HeldLock(
                    name=text(name),
                    owner=text(owner),
                    token=token,
                    left=until - tx.now,
                    waiters=waiters,
                )
                for name, owner, token, until, waiters in tx.run("locks", after=after, limit=max(0, limit))
            ]

        return await self._database.read(self._ns, work)

    def listen(self, owner: str, wake: Callable[[], None]) -> Callable[[], None]:
        end = self._waiters.add(owner, wake)
        end_watching = self._database.listeners.add(self._ns, self._written)

        def stop() -> None:
            end()
            end_watching()

        return stop

    def _written(self) -> None:
        """Somebody wrote something. One look, for all who wait on this loop, tells whom it concerns."""
        with self._guard:
            if self._is_asked:
                return
            self._is_asked = True
        self._loop.call_soon_threadsafe(self._look)

    def _look(self) -> None:
        self._is_asked = False
        if self._looking is None or self._looking.done():
            self._looking = self._loop.create_task(self._tell())
        else:
            self._is_stale = True

    async def _tell(self) -> None:
        self._is_stale = True
        while self._is_stale:
            self._is_stale = False
            try:
                self._waiters.wake(await self._database.read(self._ns, _turns))
            except StoreError as error:
                # Only a hint: whoever waits asks again.
                _log.debug("no look at locks", extra={"fields": {"error": str(error)}})


def _acquire(tx: Transaction, wish: LockWish) -> LockAnswer:
    name, owner = wish.name, wish.owner
    tx.run("lock_sweep")
    tx.run("line_sweep")
    held = tx.run("lock", name=name).fetchone()
    if held is not None and held[0] == owner.encode():
        tx.run("lock_renew", name=name, owner=owner, token=held[1], ttl=wish.ttl)
        return LockAnswer(token=held[1])
    before: int | None = tx.run("line_before", name=name, owner=owner).fetchone()[0]
    if held is None and before is None:
        tx.run("line_leave", name=name, owner=owner)
        token: int = tx.run("lock_token").fetchone()[0]
        tx.run("lock_grant", name=name, owner=owner, token=token, ttl=wish.ttl)
        return LockAnswer(token=token)
    if wish.place:
        tx.run("line_stand", name=name, owner=owner, place=wish.place)
    until = 0 if held is None else held[2]
    return LockAnswer(token=None, after=max(until, before or 0) - tx.now)


def _turns(tx: Transaction) -> list[str]:
    return [text(owner) for (owner,) in tx.run("lock_turns").fetchall()]
