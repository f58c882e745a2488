"""Named locks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from holdfast.model.records import HeldLock, LockAnswer, LockHold, LockHolder, LockWish


class LockStore(Protocol):
    """Named locks: one holder at a time, for a time, under a token.

    Leadership is such a lock, and its term the token. A lock is held until its lease ends (end <= now), and
    free otherwise. A place in line ends likewise; those that have ended count for nothing. Locks that nobody
    holds or waits for take no room for long.
    """

    async def acquire(self, wish: LockWish) -> LockAnswer:
        """Grants a lock that is free, unless somebody else stands in line before the owner.

        The lease ends at now + ttl; the owner leaves the line. The token is max(the last one + 1, the store's
        clock in µs), where the last one is the last of any lock of the namespace, never forgotten. An owner
        that holds the lock gets the token that it has, and its lease is prolonged as by `renew`.

        Otherwise the answer has no token. With `place` the owner then stands in line until now + place: where
        it stood, if its place has not ended, else behind all others. Without, the line is left as it is.
        `after` tells when the lease and all places before the owner's will have ended.
        """
        ...

    async def renew(self, holds: Sequence[LockHold]) -> list[bool]:
        """Prolongs leases that are current (owner and token) and have not ended, to now + ttl.

        True for those. Never shortens one. One that has ended is False, even if nobody has taken the lock.
        """
        ...

    async def release(self, name: str, owner: str, token: int | None) -> None:
        """Frees the lock if owner and token are current, and wakes the first in line.

        Without a token it frees what the owner has, whatever the token, and gives up its place in line; if
        the lock is free, the first who is left is woken. Anything else changes nothing.
        """
        ...

    async def holder(self, name: str) -> LockHolder | None:
        """Who holds the lock now; None if it is free."""
        ...

    async def held(self, after: str, limit: int) -> list[HeldLock]:
        """Up to `limit` of the locks that are held now, by name in the order of code points, behind `after`.

        Cheap with many locks.
        """
        ...

    def listen(self, owner: str, wake: Callable[[], None]) -> Callable[[], None]:
        """Calls `wake`, from any thread, soon after `release` has made it the owner's turn.

        A hint: it may be late, lost, or without reason. A store that cannot tell for now gives an `after`
        that is short enough to ask again instead. Gives back a function that ends the listening.
        """
        ...
