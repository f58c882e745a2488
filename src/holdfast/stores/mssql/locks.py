"""Locks."""

from collections.abc import Callable, Sequence
from typing import Final

from holdfast.model.records import HeldLock, LockAnswer, LockHold, LockHolder, LockWish
from holdfast.stores.mssql.database import Database
from holdfast.stores.mssql.queries import rendered
from holdfast.stores.mssql.rows import as_json
from holdfast.stores.waiters import Waiters

DEAF_AFTER: Final = 200_000
"""Microseconds after which to ask again for what somebody in another process has or waits for."""

_ACQUIRE = "EXEC holdfast.lock_acquire_v1 ?, ?, ?, ?, ?, ?, ?"
_RENEW = "EXEC holdfast.lock_renew_v1 ?, ?"
_RELEASE = "EXEC holdfast.lock_release_v1 ?, ?, ?, ?"
_HOLDER = """
    DECLARE @now bigint = holdfast.now_v1();
    SELECT owner, token, until - @now FROM holdfast.lock WHERE ns = ? AND name = ? AND until > @now"""

_HELD = """
    DECLARE @ns int = ?;
    DECLARE @now bigint = holdfast.now_v1();
    SELECT TOP (?) k.name, k.owner, k.token, k.until - @now, (
        SELECT COUNT(*) FROM holdfast.lock_line AS l WHERE l.ns = @ns AND l.name = k.name AND l.until > @now)
    FROM holdfast.lock AS k WHERE k.ns = @ns AND k.name > ? AND k.until > @now ORDER BY k.name"""


class MssqlLocks:
    """Locks of one namespace. A release wakes whoever waits in this process; others ask again."""

    def __init__(self, database: Database, ns: int, waiters: Waiters) -> None:
        self._database = database
        self._ns = ns
        self._waiters = waiters

    async def acquire(self, wish: LockWish) -> LockAnswer:
        [(token, after)] = await self._database.rows(
            self._sql(_ACQUIRE),
            self._ns,
            wish.name,
            wish.owner,
            wish.ttl,
            wish.place,
            self._waiters.mark,
            DEAF_AFTER,
            writes=True,
        )
        return LockAnswer(token=token, after=after)

    async def renew(self, holds: Sequence[LockHold]) -> list[bool]:
        if not holds:
            return []
        told = as_json([_as_dict(place, hold) for place, hold in enumerate(holds)])
        rows = await self._database.rows(self._sql(_RENEW), self._ns, told, writes=True)
        held = {place for (place,) in rows}
        return [place in held for place in range(len(holds))]

    async def release(self, name: str, owner: str, token: int | None) -> None:
        turn = await self._database.value(self._sql(_RELEASE), self._ns, name, owner, token)
        self._waiters.wake([turn])

    async def holder(self, name: str) -> LockHolder | None:
        rows = await self._database.rows(self._sql(_HOLDER), self._ns, name)
        return LockHolder(owner=rows[0][0], token=rows[0][1], left=rows[0][2]) if rows else None

    async def held(self, after: str, limit: int) -> list[HeldLock]:
        rows = await self._database.rows(self._sql(_HELD), self._ns, limit, after)
        return [
            HeldLock(name=name, owner=owner, token=token, left=left, waiters=waiters)
            for name, owner, token, left, waiters in rows
        ]

    def listen(self, owner: str, wake: Callable[[], None]) -> Callable[[], None]:
        return self._waiters.add(owner, wake)

    def _sql(self, sql: str) -> str:
        return rendered(sql, self._database.address)


def _as_dict(place: int, hold: LockHold) -> dict[str, object]:
    return {"place": place, "name": hold.name, "owner": hold.owner, "token": hold.token, "ttl": hold.ttl}
