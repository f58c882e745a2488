"""Locks: all in the home partition, so that no change of the layout can give one to two."""

from collections.abc import Callable, Sequence

from holdfast.model.records import HeldLock, LockAnswer, LockHold, LockHolder, LockWish
from holdfast.store import LockStore
from holdfast.stores.partitioned.crowd import Crowd


class PartitionedLocks:
    """The locks of one session. Leaders and consumers of each partition have theirs in that partition."""

    def __init__(self, crowd: Crowd) -> None:
        self._locks: LockStore = crowd.home.locks

    async def acquire(self, wish: LockWish) -> LockAnswer:
        return await self._locks.acquire(wish)

    async def renew(self, holds: Sequence[LockHold]) -> list[bool]:
        return await self._locks.renew(holds)

    async def release(self, name: str, owner: str, token: int | None) -> None:
        await self._locks.release(name, owner, token)

    async def holder(self, name: str) -> LockHolder | None:
        return await self._locks.holder(name)

    async def held(self, after: str, limit: int) -> list[HeldLock]:
        return await self._locks.held(after, limit)

    def listen(self, owner: str, wake: Callable[[], None]) -> Callable[[], None]:
        return self._locks.listen(owner, wake)
