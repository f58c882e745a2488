"""Extends the leases that a worker holds, and gives up those that it can no longer be sure of."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from holdfast.engine import surroundings
from holdfast.engine.hold import Hold, Terms
from holdfast.engine.notices import Notices
from holdfast.model.outcome import Stop
from holdfast.model.records import Extension, Held
from holdfast.model.settings import Settings
from holdfast.model.timing import SECOND
from holdfast.store import Session

log = logging.getLogger("holdfast.heartbeat")

STRIKES = 3


class Keeper:
    """Beats for one worker: keeps it known as live, and extends what it holds.

    A beat counts against a lease when it fails at, or shortly before, the time when one was due; so neither
    beats that only carry progress, nor other jobs with shorter leases, use up its three strikes. `holds`
    gives the leases held now; `tell` is called when an attempt must stop.
    """

    def __init__(
        self,
        session: Session,
        settings: Settings,
        worker: str,
        notices: Notices,
        holds: Callable[[], Sequence[Hold]],
        tell: Callable[[Hold, Stop], None],
    ) -> None:
        self._session = session
        self._lease = settings.timing.lease
        self._terms = Terms.of(settings.timing)
        self._kill_seconds = settings.kill_seconds
        self._worker = worker
        self._notices = notices
        self._holds = holds
        self._tell = tell
        self._due = surroundings.now() + self._terms.beat
        self.is_failing = False

    def next_look(self) -> float:
        """When the next beat is due, or trust in a lease ends."""
        return min([self._due, *(min(hold.beat_due, hold.trust_until) for hold in self._kept())])

    async def beat(self) -> None:
        """One beat. Gives up what is lost; never raises for what the store does."""
        holds = self._kept()
        extensions = [self._extension(hold) for hold in holds]
        # As patient as the shortest lease allows, so that three strikes end before it does.
        patience = min([self._terms.patience, *(hold.terms.patience for hold in holds)])
        sent = surroundings.now()
        try:
            async with asyncio.timeout(patience):
                known, answers = await asyncio.gather(
                    self._session.fleet.beat(self._worker, self._lease),
                    self._session.jobs.extend(self._worker, extensions),
                    return_exceptions=True,
                )
            if isinstance(answers, BaseException):
                raise answers
            self._kept_on(holds, extensions, sent, answers)
        except Exception as error:  # noqa: BLE001  whatever it is, the leases are not known to be extended
            self._missed(holds, sent, error)
        else:
            if isinstance(known, BaseException):
                log.warning("cannot keep the registration", extra={"fields": self._fields(holds, known)})

    def give_up_untrusted(self) -> None:
        """Gives up the leases that may have run out, whatever the store will say."""
        for hold in self._kept():
            if hold.trust_until <= surroundings.now():
                self._give_up(hold, Stop.LEASE_LOST)

    def keys(self) -> set[tuple[str, int]]:
        """The leases that are being kept, by job and token."""
        return {hold.key for hold in self._kept()}

    def _kept(self) -> list[Hold]:
        return [hold for hold in self._holds() if not hold.given_up and not self._outstayed(hold)]

    def _outstayed(self, hold: Hold) -> bool:
        """True for an attempt that goes on after its timeout: its lease is left to expire."""
        if hold.timeout is None or hold.started is None or hold.ended:
            return False
        return surroundings.now() > hold.started + hold.timeout + self._kill_seconds

    def _extension(self, hold: Hold) -> Extension:
        dirty, hold.progress_dirty = hold.progress_dirty, False
        return Extension(
            job=hold.record.id,
            token=hold.record.token,
            lease=round(hold.terms.lease * SECOND),
            elapsed=hold.elapsed(),
            progress=hold.progress if dirty else None,
            progress_note=hold.progress_note if dirty else None,
        )

    def _kept_on(
        self, holds: list[Hold], extensions: list[Extension], sent: float, answers: list[Held]
    ) -> None:
        self.is_failing = False
        self._due = sent + self._terms.beat
        for hold, extension, answer in zip(holds, extensions, answers, strict=True):
            if answer is Held.LOST:
                self._give_up(hold, Stop.LEASE_LOST)
                continue
            hold.extended(sent)
            if extension.elapsed is not None:
                hold.start_recorded = True
            if answer is Held.CANCEL_ASKED:
                self._tell(hold, Stop.CANCEL)
        if self._notices:
            self._notices.tell("heartbeat", worker=self._worker, held=len(holds))

    def _missed(self, holds: list[Hold], sent: float, error: BaseException) -> None:
        self.is_failing = True
        self._due = sent + self._terms.beat
        log.warning("heartbeat failed", extra={"fields": self._fields(holds, error)})
        if self._notices:
            self._notices.tell("heartbeat_failed", worker=self._worker, error=error)
        for hold in holds:
            hold.progress_dirty = hold.progress is not None
            if sent >= hold.beat_due - hold.terms.beat / 4:
                hold.missed += 1
                hold.beat_due = sent + hold.terms.beat
            if hold.missed >= STRIKES:
                self._give_up(hold, Stop.ABANDONED)

    def _give_up(self, hold: Hold, stop: Stop) -> None:
        hold.given_up = True
        if hold.ended:
            return
        log.error("lease lost, attempt abandoned", extra={"fields": {**hold.facts(), "why": stop.value}})
        if self._notices:
            self._notices.tell("lease_lost", record=hold.record, why=stop)
        self._tell(hold, stop)

    def _fields(self, holds: list[Hold], error: BaseException) -> dict[str, object]:
        return {"worker": self._worker, "held": len(holds), "error": str(error) or type(error).__name__}
