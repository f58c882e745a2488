"""Whether the store knows this worker, and making it known again."""

from __future__ import annotations

import asyncio
import logging

from holdfast.engine import surroundings
from holdfast.model.records import WorkerRecord
from holdfast.model.settings import Settings
from holdfast.model.timing import SECOND
from holdfast.store import FleetStore

log = logging.getLogger("holdfast.worker")


class Registration:
    """One worker's place in the fleet. `holds` is False while it is better not to ask for work."""

    def __init__(self, fleet: FleetStore, worker: WorkerRecord, settings: Settings) -> None:
        self._fleet = fleet
        self._worker = worker
        self._settings = settings
        self._renewed = 0.0
        self._renewing = asyncio.Lock()
        self.holds = True

    async def renew(self, sent: float) -> bool:
        """Registers again, after a pause so long that the store took this worker for dead; whether it did.

        `sent` is when the tick left that told so. Two may tell it of one pause: then once is enough.
        """
        async with self._renewing:
            return self._renewed > sent or await self._register()

    async def _register(self) -> bool:
        self.holds = False
        timing = self._settings.timing
        try:
            async with asyncio.timeout(timing.call_timeout / SECOND):
                await self._fleet.register(self._worker, timing.lease)
        except Exception as error:  # noqa: BLE001  whatever it is, it is tried again at the next poll
            fields = {"worker": self._worker.id, "error": str(error) or type(error).__name__}
            log.warning("cannot register", extra={"fields": fields})
            return False
        # A store that forgets at once is asked again at the next poll, not all the time.
        self.holds = surroundings.now() - self._renewed > self._settings.poll_seconds
        self._renewed = surroundings.now()
        return True
