"""Attempts that say they committed their own completion: only the store knows whether they did."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from holdfast.engine.hold import Hold
from holdfast.engine.ledger import Ledger
from holdfast.model.lifecycle import State
from holdfast.model.outcome import Succeeded
from holdfast.model.settings import Settings
from holdfast.model.timing import SECOND
from holdfast.store import JobStore

log = logging.getLogger("holdfast.worker")

_NOTHING = (None, b"null")


class Confirmations:
    """Asks the store about each such attempt until it answers, and settles it.

    `uncommitted` is given an attempt whose completion is not there.
    """

    def __init__(
        self, jobs: JobStore, ledger: Ledger, settings: Settings, uncommitted: Callable[[Hold], None]
    ) -> None:
        self._jobs = jobs
        self._ledger = ledger
        self._call_timeout = settings.timing.call_timeout / SECOND
        self._pause = settings.poll_seconds
        self._uncommitted = uncommitted
        self._asking: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._asking)

    def ask(self, hold: Hold, outcome: Succeeded, done: Callable[[], None]) -> None:
        """Starts to ask; calls `done` when the attempt is settled or reported."""
        task = asyncio.get_running_loop().create_task(self._confirm(hold, outcome))
        self._asking.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._asking.discard(task)
            done()

        task.add_done_callback(ended)

    def close(self) -> None:
        for task in self._asking:
            task.cancel()

    async def _confirm(self, hold: Hold, outcome: Succeeded) -> None:
        while True:
            try:
                async with asyncio.timeout(self._call_timeout):
                    record = await self._jobs.get(hold.record.id)
                break
            except Exception as error:  # noqa: BLE001  whatever it is, the store has not answered yet
                fields = {**hold.facts(), "error": str(error) or type(error).__name__}
                log.warning("cannot confirm a completion yet", extra={"fields": fields})
                await asyncio.sleep(self._pause)
        if record is not None and record.state is State.SUCCESS and record.token == hold.record.token:
            if outcome.result not in _NOTHING and record.result in _NOTHING:
                why = "the transaction was committed before the handler returned it; use tx.complete(value)"
                log.warning("result not recorded", extra={"fields": {**hold.facts(), "why": why}})
            self._ledger.settle_committed(hold, record)
        else:
            self._uncommitted(hold)
