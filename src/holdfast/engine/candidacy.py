"""What a process needs to stand for election, and to fire schedules when it leads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.engine.candidate import Candidate
from holdfast.engine.leader import LEADER
from holdfast.engine.lock_renewer import Renewer
from holdfast.engine.locks import Locks
from holdfast.engine.notices import Notices
from holdfast.engine.scheduler import Scheduler
from holdfast.model.scheduling import Term
from holdfast.model.settings import Settings
from holdfast.store import Session


class Candidacy:
    """One candidate. `connect` gives a session for the thread that renews the leader's lock."""

    def __init__(
        self,
        session: Session,
        connect: Callable[[], Coroutine[Any, Any, Session]],
        worker: str,
        settings: Settings,
        notices: Notices,
    ) -> None:
        self._session = session
        self._loop = asyncio.get_running_loop()
        self._renewer = Renewer(connect, notices)
        self._locks = Locks(session.locks, self._renewer, notices)
        self._scheduler = Scheduler(session.schedules, settings.poll_seconds, notices)
        self.leader = Candidate(self._locks, LEADER, worker, settings.leader_lease_seconds, notices, "leader")

    async def stand(self) -> None:
        """Leads whenever it can, until cancelled."""
        await self.leader.stand(self._lead)

    async def close(self) -> None:
        await self._locks.close()
        await self._renewer.stop()

    async def _lead(self, term: Term) -> None:
        wakeups = self._session.wakeups
        end_listening = wakeups.listen(self._wake) if wakeups is not None else None
        try:
            await self._scheduler.run(term)
        finally:
            if end_listening is not None:
                end_listening()

    def _wake(self) -> None:
        """From any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._scheduler.woken.set)
