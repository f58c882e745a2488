"""Takes back the jobs of vanished workers, and removes what retention no longer keeps."""

from __future__ import annotations

import logging

from holdfast.engine.notices import Notices
from holdfast.model.outcome import reclaim
from holdfast.model.records import Tick, Verdict
from holdfast.model.settings import Settings
from holdfast.model.timing import SECOND
from holdfast.store import JobStore

log = logging.getLogger("holdfast.janitor")

BATCH = 200


class Janitor:
    """Any number may run at once: every change is guarded, and of two that want the same, one gets it."""

    def __init__(self, jobs: JobStore, worker: str, settings: Settings, notices: Notices) -> None:
        self._jobs = jobs
        self._worker = worker
        self._settings = settings
        self._notices = notices

    async def reclaim(self) -> int:
        """Reclaims every job whose lease has expired; how many this one got."""
        total = 0
        while True:
            expired = await self._jobs.expired(BATCH)
            if not expired:
                return total
            moves = [reclaim(record, self._settings.lost_limit) for record in expired]
            ticked = await self._jobs.tick(Tick(worker=self._worker, seq=0, moves=moves))
            won = 0
            for record, move, verdict in zip(expired, moves, ticked.verdicts, strict=True):
                if verdict is not Verdict.ACCEPTED:
                    continue
                won += 1
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
            total += won
            if len(expired) < BATCH or not won:
                return total

    async def prune(self) -> int:
        """Removes finished jobs that are older than retention, in small batches; how many."""
        total = 0
        older_than = round(self._settings.retention_seconds * SECOND)
        while removed := await self._jobs.prune(older_than, BATCH):
            total += removed
            if removed < BATCH:
                break
        if total:
            log.info("pruned", extra={"fields": {"jobs": total, "worker": self._worker}})
        return total
