"""One tick at a time, until the store has answered it.

An unknown outcome is settled before anything new is sent: the same tick goes out again, and the store gives
the first answer. A fault that is not transient is narrowed down to the move that causes it, so that one bad
move cannot hold up the others.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.engine.hold import Hold, now
from holdfast.engine.notices import Notices
from holdfast.model.errors import OutcomeUnknown, StoreUnavailable
from holdfast.model.records import Move, Tick, Ticked, Verdict, Want
from holdfast.store import JobStore

log = logging.getLogger("holdfast.worker")

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 5.0

Report = tuple[Hold, Move]


@dataclass(slots=True)
class Answer:
    """A tick's answer; `sent` is when the call that made the claims left at the earliest."""

    ticked: Ticked
    sent: float


class Exchange:
    """Sends the ticks of one worker.

    `unrecordable` gives the move to record instead of one that cannot be.
    """

    def __init__(
        self,
        jobs: JobStore,
        worker: str,
        call_timeout: float,
        notices: Notices,
        unrecordable: Callable[[Hold, str], Move],
    ) -> None:
        self._jobs = jobs
        self._worker = worker
        self._call_timeout = call_timeout
        self._notices = notices
        self._unrecordable = unrecordable
        self._seq = 0
        self.is_down = False

    async def send(self, reports: list[Report], want: Want | None) -> Answer:
        """The store's answer. Waits out an outage; raises only when the store refuses even an empty tick."""
        self._seq += 1
        tick = Tick(worker=self._worker, seq=self._seq, moves=[move for _, move in reports], want=want)
        try:
            return await self._insist(tick)
        except Exception as error:
            if not reports:
                raise
            log.exception("tick refused", extra={"fields": {"worker": self._worker, "moves": len(reports)}})
            verdicts = await self._one_by_one(reports, error)
            empty = Ticked(
                verdicts=verdicts,
                claimed=[],
                cancel_asked=[],
                paused=frozenset(),
                next_due=None,
                registered=True,
            )
            return Answer(empty, now())

    async def _insist(self, tick: Tick) -> Answer:
        pause = FIRST_PAUSE
        sent: float | None = None
        while True:
            if sent is None:
                sent = now()
            try:
                async with asyncio.timeout(self._call_timeout):
                    ticked = await self._jobs.tick(tick)
            except (OutcomeUnknown, TimeoutError) as error:
                tick.repeat = True
                self._down(error)
            except StoreUnavailable as error:
                if not tick.repeat:
                    sent = None
                self._down(error)
            else:
                if self.is_down:
                    self._up()
                return Answer(ticked, sent)
            await asyncio.sleep(pause * random.uniform(0.5, 1))
            pause = min(LONGEST_PAUSE, pause * 2)

    async def _one_by_one(self, reports: list[Report], error: Exception) -> list[Verdict]:
        """Halves the moves until the bad one stands alone, and records that one as unrecordable."""
        if len(reports) > 1:
            middle = len(reports) // 2
            return [
                *await self._try(reports[:middle]),
                *await self._try(reports[middle:]),
            ]
        hold, _ = reports[0]
        move = self._unrecordable(hold, f"unrecordable: {type(error).__name__}")
        self._seq += 1
        try:
            answer = await self._insist(Tick(worker=self._worker, seq=self._seq, moves=[move]))
        except Exception:
            log.exception("job given up", extra={"fields": {"job": hold.record.id, "worker": self._worker}})
            return [Verdict.REFUSED]
        return answer.ticked.verdicts

    async def _try(self, reports: list[Report]) -> list[Verdict]:
        self._seq += 1
        tick = Tick(worker=self._worker, seq=self._seq, moves=[move for _, move in reports])
        try:
            return (await self._insist(tick)).ticked.verdicts
        except Exception as error:  # noqa: BLE001  any fault that is not transient is narrowed down
            return await self._one_by_one(reports, error)

    def _down(self, error: Exception) -> None:
        if not self.is_down:
            self.is_down = True
            log.warning("store unreachable", extra={"fields": {"worker": self._worker, "error": str(error)}})
        if self._notices:
            self._notices.tell("tick_failed", worker=self._worker, error=error)

    def _up(self) -> None:
        self.is_down = False
        log.info("store reachable again", extra={"fields": {"worker": self._worker}})
        if self._notices:
            self._notices.tell("store_back", worker=self._worker)
