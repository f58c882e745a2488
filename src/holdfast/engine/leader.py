"""Who leads: the candidate that holds the leader's lock, and fires schedules."""

from __future__ import annotations

import msgspec

from holdfast.model.timing import SECOND
from holdfast.store import LockStore

LEADER = "holdfast.leader"
"""The name of the lock. Its token is the number of the term."""


class LeaderInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Who leads, in which term, and for how many seconds unless it is prolonged."""

    worker: str
    term: int
    left: float


async def who_leads(locks: LockStore) -> LeaderInfo | None:
    """The leader; None while there is none."""
    held = await locks.holder(LEADER)
    if held is None:
        return None
    worker = held.owner.rpartition("/")[0]
    return LeaderInfo(worker=worker, term=held.token, left=held.left / SECOND)
