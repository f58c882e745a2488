"""Refusing those who come too late: what a lock protects remembers the newest token, and takes no older one.

A lock alone cannot keep out a holder that was frozen for longer than its lease, and wakes up in the middle of
its work. The token can, because only the protected thing itself sees in which order writes arrive. In a
table, keep it in a column of its own, and let the statement that writes compare:

    UPDATE account SET balance = :balance, fence = :token WHERE id = :id AND fence <= :token

and give the number of rows that it changed to `check_written`. For a service in one process there is `Fence`.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock

from holdfast.model.errors import StaleToken

__all__ = ["Fence", "StaleToken", "check_written"]


def check_written(rows: int, token: int) -> None:
    """Raises StaleToken if a fenced statement changed no row: one with a newer token has been there.

    Raises TypeError for what is not a number of rows: taken for one, it would let everything pass.
    """
    told: object = rows
    if type(told) is not int or told < 0:
        raise TypeError(
            f"rows is {ascii(rows)[:60]}, which does not tell how many rows were changed; give what your "
            "driver tells, for instance cursor.rowcount, or the number of rows that RETURNING gives"
        )
    if rows == 0:
        raise StaleToken(
            f"token {token} is too old, or there is no such row: nothing was written; take the lock again, "
            "and read before you write"
        )


class Fence:
    """The newest token of each resource, for a service in one process. Safe to use from any thread.

    It forgets with the process: what outlives it must keep the token with its own data.
    """

    def __init__(self) -> None:
        self._gates: dict[str, _Gate] = {}

    @contextmanager
    def admit(self, resource: str, token: int) -> Generator[None]:
        """Lets the block run alone for this resource; StaleToken if a newer token has been here before.

        The block should only write: it blocks all others, and must not await.
        """
        gate = self._gates.get(resource) or self._gates.setdefault(resource, _Gate())
        with gate.lock:
            if token < gate.newest:
                raise StaleToken(f"token {token} is too old for {resource}: {gate.newest} has been here")
            gate.newest = token
            yield


class _Gate:
    def __init__(self) -> None:
        self.lock = Lock()
        self.newest = 0
