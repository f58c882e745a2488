"""Locks, with every operation sent again after a transient fault."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.model.records import HeldLock, LockAnswer, LockHold, LockHolder, LockWish
from holdfast.store import LockStore
from holdfast.stores.resilient.guard import Guard


class ResilientLocks:
    """The locks of one session. What keeps a lease waits for its trial."""

    def __init__(self, locks: LockStore, guard: Guard) -> None:
        self._locks = locks
        self._call = guard.call

    async def acquire(self, wish: LockWish) -> LockAnswer:
        return await self._call(lambda: self._locks.acquire(wish))

    async def renew(self, holds: Sequence[LockHold]) -> list[bool]:
        return await self._call(lambda: self._locks.renew(holds), is_patient=True) if holds else []

    async def release(self, name: str, owner: str, token: int | None) -> None:
        await self._call(lambda: self._locks.release(name, owner, token))

    async def holder(self, name: str) -> LockHolder | None:
        return await self._call(lambda: self._locks.holder(name))

    async def held(self, after: str, limit: int) -> list[HeldLock]:
        return await self._call(lambda: self._locks.held(after, limit))

    def listen(self, owner: str, wake: Callable[[], None]) -> Callable[[], None]:
        return self._locks.listen(owner, wake)
