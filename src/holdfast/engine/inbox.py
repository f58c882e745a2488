"""The store's last answer, until the worker takes it in."""

from __future__ import annotations

from holdfast.engine.exchange import Answer
from holdfast.engine.hold import Hold
from holdfast.engine.ledger import Ledger
from holdfast.engine.slots import Slots
from holdfast.model.lifecycle import State
from holdfast.model.outcome import Stop
from holdfast.model.records import JobRecord, Ticked, Verdict


class Inbox:
    """One answer at most: the next one that comes makes room for itself."""

    def __init__(self, slots: Slots, ledger: Ledger) -> None:
        self._slots = slots
        self._ledger = ledger
        self._answer: Answer | None = None

    def __bool__(self) -> bool:
        return self._answer is not None

    @property
    def claimed(self) -> int:
        """How many jobs were claimed and are not taken in yet."""
        ticked = None if self._answer is None else self._answer.ticked
        return 0 if ticked is None else len(ticked.claimed)

    def put(self, answer: Answer) -> None:
        self.take_in()
        self._answer = answer

    def take_in(self) -> None:
        """Settles what the verdicts are about, and fills the slots with what was claimed."""
        answer, self._answer = self._answer, None
        if answer is None:
            return
        for (hold, move), verdict in zip(answer.reports, answer.verdicts, strict=True):
            if move.outcome is None:
                self._start_settled(hold, verdict)
            else:
                self._ledger.settle(hold, move, verdict)
        if answer.ticked is not None:
            self._take_jobs(answer.ticked, answer.sent)
        self._slots.fill()

    def receive(self, claimed: list[JobRecord], sent: float) -> None:
        """Fills the slots with jobs that came without being asked for."""
        self._slots.add(self._ledger.take(claimed, sent))
        self._slots.fill()

    def _take_jobs(self, ticked: Ticked, sent: float) -> None:
        slots, ledger = self._slots, self._ledger
        slots.add(ledger.take(ticked.claimed, sent))
        for job_id, token in ticked.cancel_asked:
            asked = ledger.find(job_id, token)
            if asked is not None:
                slots.tell(asked, Stop.CANCEL)
        if ticked.paused and slots.buffer:
            slots.give_back("queue paused", lambda hold: hold.record.queue not in ticked.paused)
        if ticked.paused_tasks and slots.buffer:
            slots.give_back("task paused", lambda hold: hold.record.task not in ticked.paused_tasks)

    def _start_settled(self, hold: Hold, verdict: Verdict) -> None:
        if verdict is Verdict.ACCEPTED:
            hold.record.state = State.RUNNING
            self._slots.start_recorded(hold)
        elif hold.started is None:
            self._slots.drop(hold)
            self._ledger.drop(hold)
        else:
            self._slots.tell(hold, Stop.LEASE_LOST)
