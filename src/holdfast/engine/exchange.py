"""One tick after another, each until the store has answered it.

An unknown outcome is settled before anything new is sent: the same tick goes out again, and the store gives
the first answer. A fault that is not transient is narrowed down to the move that causes it, so that one bad
move cannot hold up the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from holdfast.engine import surroundings
from holdfast.engine.hold import Hold
from holdfast.engine.notices import Notices
from holdfast.engine.outage import Outage, pauses
from holdfast.engine.standing import Standing
from holdfast.model.errors import OutcomeUnknown, StoreUnavailable
from holdfast.model.records import Move, Tick, Ticked, Verdict, Want
from holdfast.model.timing import SECOND
from holdfast.store import JobStore

log = logging.getLogger("holdfast.worker")

Report = tuple[Hold, Move]
Verdicts = tuple[list[Report], list[Verdict]]

LATE = 1.0
"""Seconds after which an event loop that is well has seen at the latest that the time for a call is over."""


class GaveUp(Exception):
    """The exchange was told to give up before the store answered."""


@dataclass(slots=True)
class Answer:
    """A tick's answer.

    `reports` has the moves that the verdicts are about: instead of one that could not be recorded, the one
    that tells so. `ticked` is None if the store would not take the tick as a whole; then nothing was claimed.
    `sent` is when the call that made the claims left at the earliest.
    """

    reports: list[Report]
    verdicts: list[Verdict]
    ticked: Ticked | None
    sent: float


class Exchange:
    """Sends ticks of one worker, one at a time.

    `seqs` numbers them, for all exchanges of the worker, and `standing` knows which want stands.
    `unrecordable` gives the move to record instead of one that cannot be. `cut_off` is called when the caller
    is cancelled while a tick is under way: its answer is still waited for, once, because what it claimed
    would otherwise be held by nobody.
    """

    def __init__(
        self,
        jobs: JobStore,
        worker: str,
        seqs: Iterator[int],
        standing: Standing,
        call_timeout: float,
        notices: Notices,
        unrecordable: Callable[[Hold, str], Move],
        cut_off: Callable[[], None],
    ) -> None:
        self._jobs = jobs
        self._worker = worker
        self._call_timeout = call_timeout
        self._outage = Outage(worker, notices, "tick_failed")
        self._unrecordable = unrecordable
        self._cut_off = cut_off
        self._seqs = seqs
        self._standing = standing
        self.is_busy = False
        self.is_unsettled = False
        self._is_over = False
        self._was_cancelled = False
        self._waiting: asyncio.Timeout | None = None
        self._asked: float | None = None

    @property
    def away_since(self) -> float | None:
        """Since when the store owes an answer, by `surroundings.now`; None while it owes none.

        Also None when the call should have been given up by now, and was not: then it is not the store.
        """
        asked = self._asked
        if asked is None or self._outage.since is not None:
            return asked
        return asked if surroundings.now() - asked <= self._call_timeout + LATE else None

    async def send(self, reports: list[Report], want: Want | None) -> Answer:
        """The store's answer. Waits out an outage; raises only when the store refuses even an empty tick."""
        self.is_busy = True
        try:
            return await self._insist(reports, want)
        except GaveUp:
            raise
        except Exception:
            if not reports:
                raise
            log.exception("tick refused", extra={"fields": {"worker": self._worker, "moves": len(reports)}})
            return Answer(*await self._settle(reports), None, surroundings.now())
        finally:
            self.is_busy = self.is_unsettled = False

    def give_up(self) -> None:
        """Ends the waiting for a store that does not answer: `send` raises GaveUp."""
        self._is_over = True
        if self._waiting is not None and not self._waiting.expired():
            self._waiting.reschedule(asyncio.get_running_loop().time())

    async def _insist(self, reports: list[Report], want: Want | None = None) -> Answer:
        tick = Tick(worker=self._worker, seq=next(self._seqs), moves=[move for _, move in reports], want=want)
        stood_from = self._standing.leaves(tick)
        self._asked = surroundings.now()
        try:
            ticked, sent = await self._repeat(tick)
        except GaveUp:
            raise
        except Exception:
            self._standing.refused(tick, stood_from)
            raise
        finally:
            self._asked = None
        if ticked.handed:
            ago = ticked.handed_ago
            sent = min(sent, stood_from) if ago is None else sent - ago / SECOND
        ticked.claimed += self._standing.answered(tick, ticked)
        return Answer(reports, ticked.verdicts, ticked, sent)

    async def _repeat(self, tick: Tick) -> tuple[Ticked, float]:
        """The answer, and when the call that made the claims left at the earliest."""
        sent: float | None = None
        waits = pauses()
        while True:
            if sent is None:
                sent = surroundings.now()
            try:
                async with asyncio.timeout(self._call_timeout) as self._waiting:
                    ticked = await self._jobs.tick(tick)
            except asyncio.CancelledError as cancellation:
                tick.repeat = self.is_unsettled = True
                self._endure(cancellation)
                continue
            except (OutcomeUnknown, TimeoutError) as error:
                tick.repeat = True
                self._outage.failed(error)
            except StoreUnavailable as error:
                if not tick.repeat:
                    sent = None
                self._outage.failed(error)
            else:
                self._outage.succeeded()
                return ticked, sent
            finally:
                self._waiting = None
            self.is_unsettled = True
            await self._rest(next(waits))

    async def _rest(self, pause: float) -> None:
        if not self._is_over:
            try:
                async with asyncio.timeout(pause) as self._waiting:
                    await asyncio.get_running_loop().create_future()
            except TimeoutError:
                pass
            except asyncio.CancelledError as cancellation:
                self._endure(cancellation)
            finally:
                self._waiting = None
        if self._is_over:
            raise GaveUp

    def _endure(self, cancellation: asyncio.CancelledError) -> None:
        """The first cancellation waits for the answer; the second does not."""
        if self._was_cancelled:
            raise cancellation
        self._was_cancelled = True
        self._cut_off()

    async def _settle(self, reports: list[Report]) -> Verdicts:
        """Halves the moves until the bad one stands alone, and records that one as unrecordable."""
        try:
            return reports, (await self._insist(reports)).verdicts
        except GaveUp:
            raise
        except Exception as error:  # noqa: BLE001  any fault that is not transient is narrowed down
            if len(reports) == 1:
                return await self._replace(*reports[0], error)
        middle = len(reports) // 2
        first, second = await self._settle(reports[:middle]), await self._settle(reports[middle:])
        return first[0] + second[0], first[1] + second[1]

    async def _replace(self, hold: Hold, move: Move, error: Exception) -> Verdicts:
        if move.outcome is None:
            # A start has nothing instead: its attempt goes on, or has not begun, and must not be closed.
            return [(hold, move)], [Verdict.REFUSED]
        instead = [(hold, self._unrecordable(hold, f"unrecordable: {type(error).__name__}"))]
        try:
            return instead, (await self._insist(instead)).verdicts
        except GaveUp:
            raise
        except Exception:
            log.exception("job given up", extra={"fields": hold.facts()})
            return instead, [Verdict.REFUSED]
