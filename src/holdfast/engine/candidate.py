"""One of many does a duty: whoever holds the lock, until its term is over."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from holdfast.engine.locks import Locks
from holdfast.engine.notices import Notices
from holdfast.model.errors import LeaseLost, LockLost, StoreError
from holdfast.model.scheduling import Term

log = logging.getLogger("holdfast.candidate")

LONGEST_PAUSE = 5.0

Duty = Callable[[Term], Awaitable[None]]


class Candidate:
    """Waits in line, does the duty until the term is over, and stands again, unless the duty is done.

    Cancelled while it does the duty, it resigns, so that the next in line takes over at once. `notice` is
    the first word of what it tells: elected, and lost.
    """

    def __init__(
        self, locks: Locks, lock: str, worker: str, lease_seconds: float, notices: Notices, notice: str
    ) -> None:
        self._locks = locks
        self._lock = lock
        self._worker = worker
        self._lease = lease_seconds
        self._notices = notices
        self._notice = notice
        self.term: Term | None = None

    async def stand(self, duty: Duty) -> None:
        """Does the duty whenever it can."""
        failed = 0
        while True:
            try:
                await self._serve(duty)
                return
            except (LockLost, LeaseLost) as error:
                self._say("lost", error=str(error))
                failed = 0
            except (StoreError, TimeoutError) as error:
                failed += 1
                fields = {**self._facts, "error": str(error) or type(error).__name__}
                log.warning("cannot do its duty for now", extra={"fields": fields})
                await asyncio.sleep(pause_after(failed))
            except Exception:
                failed += 1
                log.exception("the duty failed", extra={"fields": self._facts})
                await asyncio.sleep(pause_after(failed))

    async def _serve(self, duty: Duty) -> None:
        async with self._locks.lock(self._lock, self._lease, holder=self._worker) as grant:
            self.term = Term(lock=grant.name, owner=grant.owner, token=grant.token)
            self._say("elected", term=grant.token)
            try:
                await duty(self.term)
            finally:
                self.term = None

    @property
    def _facts(self) -> dict[str, object]:
        return {"worker": self._worker, "lock": self._lock}

    def _say(self, what: str, **facts: object) -> None:
        log.info("%s %s", self._notice, what, extra={"fields": {**self._facts, **facts}})
        if self._notices:
            self._notices.tell(f"{self._notice}_{what}", worker=self._worker, **facts)


def pause_after(failed: int) -> float:
    """Seconds to wait after so many failures in a row."""
    return random.uniform(0.5, 1) * min(LONGEST_PAUSE, 0.1 * 2.0 ** min(failed, 10))
