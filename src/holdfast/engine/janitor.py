"""Takes back the jobs of vanished workers, and removes what retention no longer keeps."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet
from typing import NoReturn

from holdfast.engine.events import unneeded
from holdfast.engine.notices import Notices
from holdfast.model.errors import StoreError
from holdfast.model.lifecycle import WAITING, State
from holdfast.model.outcome import reclaim
from holdfast.model.records import Edit, JobRecord, Move, Tick, Verdict
from holdfast.model.settings import Settings
from holdfast.model.timing import SECOND
from holdfast.store import Session

log = logging.getLogger("holdfast.janitor")

BATCH = 200
PRUNE_SECONDS = 60.0
SWEEP_TIMEOUT = 30.0


class Janitor:
    """Any number may run at once: every change is guarded, and of two that want the same, one gets it.

    `kept` gives the leases that this worker itself is keeping, by job and token. They are left alone even if
    they seem to have expired: their code is still running here, and taking them back would only start it
    again beside itself.
    """

    def __init__(
        self,
        session: Session,
        worker: str,
        settings: Settings,
        notices: Notices,
        kept: Callable[[], AbstractSet[tuple[str, int]]] = frozenset,
    ) -> None:
        self._session = session
        self._jobs = session.jobs
        self._fleet = session.fleet
        self._worker = worker
        self._settings = settings
        self._notices = notices
        self._kept = kept

    async def sweep(self) -> None:
        """Reclaims and prunes, again and again, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._again(self.reclaim, self._settings.reclaim_seconds))
            group.create_task(self._again(self.expire, self._settings.reclaim_seconds))
            group.create_task(self._again(self.prune, PRUNE_SECONDS))
            group.create_task(self._again(self.prune_events, PRUNE_SECONDS))

    async def reclaim(self) -> int:
        """Reclaims every job whose lease has expired; how many this one got."""
        total = 0
        while True:
            found = await self._jobs.expired(BATCH)
            if not found:
                return total
            kept = self._kept()
            expired = [record for record in found if (record.id, record.token) not in kept]
            moves = await self._moves(expired)
            won = await self._take_back(expired, moves)
            total += won
            if len(found) < BATCH or not won:
                return total

    async def expire(self) -> int:
        """Cancels jobs that were not started before they expired; how many."""
        total = 0
        while True:
            overdue = await self._session.flow.overdue(BATCH)
            won = 0
            for record in await self._jobs.states(overdue) if overdue else []:
                if record is None or record.state not in WAITING:
                    continue
                edit = Edit(path=(record.state, State.CANCELLED), reason="expired")
                won += await self._jobs.edit(record.id, record.version, edit) is not None
            if won:
                log.info("expired", extra={"fields": {"jobs": won, "worker": self._worker}})
            total += won
            if len(overdue) < BATCH or not won:
                return total

    async def _moves(self, expired: list[JobRecord]) -> list[Move]:
        if not expired:
            return []
        known = {worker.id for worker in await self._fleet.workers()}
        limit = self._settings.lost_limit
        return [reclaim(record, limit, retired=record.worker not in known) for record in expired]

    async def prune(self) -> int:
        """Removes finished jobs that are older than retention, in small batches; how many."""
        older_than = round(self._settings.retention_seconds * SECOND)
        return await self._prune("jobs", lambda: self._jobs.prune(older_than, BATCH))

    async def prune_events(self) -> int:
        """Removes events that are older than retention and that every group has passed; how many."""
        older_than = round(self._settings.event_retention_seconds * SECOND)
        passed = await unneeded(self._session)
        return await self._prune("events", lambda: self._session.events.prune(older_than, passed, BATCH))

    async def _prune(self, what: str, remove: Callable[[], Awaitable[int]]) -> int:
        total = 0
        while removed := await remove():
            total += removed
            if removed < BATCH:
                break
        if total:
            log.info("pruned", extra={"fields": {what: total, "worker": self._worker}})
        return total

    async def _again(self, work: Callable[[], Awaitable[int]], pause: float) -> NoReturn:
        """Does the work at intervals. Whatever fails is tried again at the next one."""
        while True:
            await asyncio.sleep(pause * random.uniform(0.7, 1))
            try:
                async with asyncio.timeout(SWEEP_TIMEOUT):
                    await work()
            except Exception as error:  # noqa: BLE001  jobs of vanished workers must not depend on one sweep
                fields = {"worker": self._worker, "error": str(error) or type(error).__name__}
                log.warning("sweep failed", extra={"fields": fields})

    async def _take_back(self, expired: list[JobRecord], moves: list[Move]) -> int:
        if not expired:
            return 0
        try:
            ticked = await self._jobs.tick(Tick(worker=self._worker, seq=0, moves=moves))
        except StoreError:
            raise
        except Exception:
            if len(expired) == 1:
                log.exception("cannot reclaim", extra={"fields": {"job": expired[0].id}})
                return 0
            # One job that the store cannot move must not hold up the others.
            alone = zip(expired, moves, strict=True)
            return sum([await self._take_back([record], [move]) for record, move in alone])
        outcomes = list(zip(expired, moves, ticked.verdicts, strict=True))
        for record, move, verdict in outcomes:
            if verdict is Verdict.ACCEPTED:
                self._tell(record, move)
            elif self._notices:
                self._notices.tell("reclaim_refused", record=record)
        return ticked.verdicts.count(Verdict.ACCEPTED)

    def _tell(self, record: JobRecord, move: Move) -> None:
        fields = {
            "job": record.id,
            "task": record.task,
            "run": record.run,
            "token": record.token,
            "worker": record.worker,
            "to": move.path[-1],
            "lost": move.lost,
        }
        log.warning("lease expired, job reclaimed", extra={"fields": fields})
        if self._notices:
            self._notices.tell("reclaimed", record=record, state=move.path[-1])
