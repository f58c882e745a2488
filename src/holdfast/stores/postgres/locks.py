"""Locks."""

from collections.abc import Callable, Sequence
from typing import Final

from holdfast.model.records import HeldLock, LockAnswer, LockHold, LockHolder, LockWish
from holdfast.stores.postgres.database import Database
from holdfast.stores.postgres.listener import PostgresWakeups
from holdfast.stores.postgres.queries import Queries
from holdfast.stores.waiters import Waiters

DEAF_AFTER: Final = 100_000
"""Microseconds after which to ask again where wake-ups do not arrive."""


class PostgresLocks:
    """Locks of one namespace."""

    def __init__(
        self, database: Database, queries: Queries, ns: int, waiters: Waiters, wakeups: PostgresWakeups
    ) -> None:
        self._database = database
        self._queries = queries
        self._ns = ns
        self._waiters = waiters
        self._wakeups = wakeups
        self._channel = database.address.lock_channel(ns) if database.address.notify else None

    async def acquire(self, wish: LockWish) -> LockAnswer:
        [(token, after)] = await self._database.rows(
            self._queries.lock_acquire,
            self._ns,
            wish.name,
            wish.owner,
            wish.ttl,
            wish.place,
            self._waiters.mark,
            writes=True,
        )
        if token is None and self._wakeups.is_deaf:
            after = min(after, DEAF_AFTER)
        return LockAnswer(token=token, after=after)

    async def renew(self, holds: Sequence[LockHold]) -> list[bool]:
        if not holds:
            return []
        renewed: list[bool] = await self._database.value(
            self._queries.lock_renew,
            self._ns,
            [hold.name for hold in holds],
            [hold.owner for hold in holds],
            [hold.token for hold in holds],
            [hold.ttl for hold in holds],
        )
        return renewed

    async def release(self, name: str, owner: str, token: int | None) -> None:
        turn = await self._database.value(
            self._queries.lock_release, self._ns, name, owner, token, self._waiters.mark, self._channel
        )
        self._waiters.wake([turn])

    async def holder(self, name: str) -> LockHolder | None:
        rows = await self._database.rows(self._queries.lock_holder, self._ns, name)
        return LockHolder(owner=rows[0][0], token=rows[0][1], left=rows[0][2]) if rows else None

    async def held(self, after: str, limit: int) -> list[HeldLock]:
        rows = await self._database.rows(self._queries.locks, self._ns, after, limit)
        return [
            HeldLock(name=name, owner=owner, token=token, left=left, waiters=waiters)
            for name, owner, token, left, waiters in rows
        ]

    def listen(self, owner: str, wake: Callable[[], None]) -> Callable[[], None]:
        end = self._waiters.add(owner, wake)
        end_hearing = self._wakeups.hear()

        def stop() -> None:
            end()
            end_hearing()

        return stop
