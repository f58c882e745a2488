"""Locks."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from holdfast.model.records import HeldLock, LockAnswer, LockHold, LockHolder, LockWish
from holdfast.stores.redis.database import Database
from holdfast.stores.redis.listener import RedisWakeups
from holdfast.stores.waiters import Waiters

DEAF_AFTER: Final = 100_000
"""Microseconds after which to ask again where wake-ups do not arrive."""


class RedisLocks:
    """Locks of one namespace."""

    def __init__(self, database: Database, waiters: Waiters, wakeups: RedisWakeups) -> None:
        self._database = database
        self._waiters = waiters
        self._wakeups = wakeups
        self._notify = database.address.notify

    async def acquire(self, wish: LockWish) -> LockAnswer:
        token, told = await self._database.run("lock_acquire", wish.name, wish.owner, wish.ttl, wish.place)
        if token is not None:
            return LockAnswer(token=int(token))
        after = int(told)
        return LockAnswer(token=None, after=min(after, DEAF_AFTER) if self._wakeups.is_deaf else after)

    async def renew(self, holds: Sequence[LockHold]) -> list[bool]:
        if not holds:
            return []
        values: list[Any] = []
        for hold in holds:
            values += (hold.name, hold.owner, hold.token, hold.ttl)
        return [renewed == 1 for renewed in await self._database.run("lock_renew", *values)]

    async def release(self, name: str, owner: str, token: int | None) -> None:
        teller = self._waiters.mark if self._notify else ""
        turn = await self._database.run("lock_release", teller, name, owner, b"" if token is None else token)
        self._waiters.wake([turn.decode() if turn is not None else None])

    async def holder(self, name: str) -> LockHolder | None:
        told = await self._database.run("lock_holder", name, writes=False)
        if told is None:
            return None
        owner, token, left = told
        return LockHolder(owner=owner.decode(), token=int(token), left=int(left))

    async def held(self, after: str, limit: int) -> list[HeldLock]:
        told = await self._database.run("lock_held", after, max(0, limit), writes=False)
        return [
            HeldLock(
                name=name.decode(), owner=owner.decode(), token=int(token), left=int(left), waiters=waiters
            )
            for name, owner, token, left, waiters in told
        ]

    def listen(self, owner: str, wake: Callable[[], None]) -> Callable[[], None]:
        end = self._waiters.add(owner, wake)
        end_hearing = self._wakeups.hear()

        def stop() -> None:
            end()
            end_hearing()

        return stop
