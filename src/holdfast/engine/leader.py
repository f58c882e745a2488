"""One of many leads: whoever holds the lock does the duty that only one may do."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

import msgspec

from holdfast.engine.locks import Locks
from holdfast.engine.notices import Notices
from holdfast.model.errors import LeaseLost, LockLost, StoreError
from holdfast.model.scheduling import Term
from holdfast.model.timing import SECOND
from holdfast.store import LockStore

log = logging.getLogger("holdfast.leader")

LEADER = "holdfast.leader"
"""The name of the lock. Its token is the number of the term."""

LONGEST_PAUSE = 5.0

Duty = Callable[[Term], Awaitable[None]]


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


class Leader:
    """A candidate, until cancelled: waits in line, leads until the term is over, and stands again.

    Cancelled while it leads, it resigns, so that the next in line takes over at once.
    """

    def __init__(self, locks: Locks, worker: str, lease_seconds: float, notices: Notices, duty: Duty) -> None:
        self._locks = locks
        self._worker = worker
        self._lease = lease_seconds
        self._notices = notices
        self._duty = duty
        self.term: Term | None = None

    async def stand(self) -> None:
        """Leads whenever it can."""
        failed = 0
        while True:
            try:
                await self._lead()
            except (LockLost, LeaseLost) as error:
                self._say("leadership lost", "leader_lost", error=str(error))
                failed = 0
            except (StoreError, TimeoutError) as error:
                failed += 1
                fields = {"worker": self._worker, "error": str(error) or type(error).__name__}
                log.warning("cannot lead for now", extra={"fields": fields})
                await asyncio.sleep(_pause(failed))
            except Exception:
                failed += 1
                log.exception("the leader's duty failed", extra={"fields": {"worker": self._worker}})
                await asyncio.sleep(_pause(failed))

    async def _lead(self) -> None:
        async with self._locks.lock(LEADER, self._lease, holder=self._worker) as grant:
            self.term = Term(lock=grant.name, owner=grant.owner, token=grant.token)
            self._say("leads", "leader_elected", term=grant.token)
            try:
                await self._duty(self.term)
            finally:
                self.term = None

    def _say(self, event: str, notice: str, **facts: object) -> None:
        log.info(event, extra={"fields": {"worker": self._worker, **facts}})
        if self._notices:
            self._notices.tell(notice, worker=self._worker, **facts)


def _pause(failed: int) -> float:
    return random.uniform(0.5, 1) * min(LONGEST_PAUSE, 0.1 * 2.0 ** min(failed, 10))
