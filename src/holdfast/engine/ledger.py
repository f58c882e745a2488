"""The leases that a worker holds: taken in hand when claimed, let go when the store has settled them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from holdfast.engine.account import Account
from holdfast.engine.hold import Hold, Terms
from holdfast.engine.notices import Notices
from holdfast.engine.tracing import settled
from holdfast.model.lifecycle import FINISHED, Ending
from holdfast.model.records import JobRecord, Move, Verdict
from holdfast.model.settings import Settings
from holdfast.model.task import Registry

log = logging.getLogger("holdfast.worker")

REFUSED = "refused"
UNTOLD = "untold"


class Results(Protocol):
    """Whoever waits for results in this process."""

    def settled(self, record: JobRecord) -> None: ...


class Ledger:
    """All that this worker holds, by job and token: a lost attempt and its successor may both be here.

    `hurry` is called when a lease is shorter than the worker's own, so that it is extended in time.
    """

    def __init__(
        self,
        registry: Registry,
        settings: Settings,
        notices: Notices,
        results: Results | None,
        hurry: Callable[[], None],
        account: Account,
    ) -> None:
        self._registry = registry
        self._timing = settings.timing
        self._terms = Terms.of(settings.timing)
        self._notices = notices
        self._results = results
        self._hurry = hurry
        self._account = account
        self._holds: dict[tuple[str, int], Hold] = {}

    def __len__(self) -> int:
        return len(self._holds)

    def holds(self) -> list[Hold]:
        """What is held now. From any thread."""
        return list(self._holds.values())

    def find(self, job_id: str, token: int) -> Hold | None:
        return self._holds.get((job_id, token))

    def take(self, records: list[JobRecord], sent: float) -> list[Hold]:
        """Takes claimed jobs in hand, if their task is known here. `sent` is when the claim left."""
        taken: list[Hold] = []
        self._account.claimed(records)
        for record in records:
            definition = self._registry.find(record.task)
            if definition is None:
                fields = {"worker": record.worker, "job": record.id, "task": record.task}
                log.error("the store gave a job of a task that was not wanted", extra={"fields": fields})
                continue
            terms = self._terms if record.lease is None else Terms.of(self._timing, record.lease)
            hold = self._holds[record.id, record.token] = Hold(record, definition, terms, sent)
            taken.append(hold)
            if terms.beat < self._terms.beat:
                self._hurry()
            if self._notices:
                self._notices.tell("claimed", record=record)
        return taken

    def settle(self, hold: Hold, move: Move, verdict: Verdict) -> None:
        """Lets go of an attempt that the store has closed, or says belongs to another."""
        self.drop(hold)
        record = hold.record
        if verdict is Verdict.ACCEPTED:
            record.state = move.path[-1]
            if move.outcome is not None:
                self._account.ended(record.queue, move.outcome)
            if self._results is not None and record.state in FINISHED:
                record.result, record.reason, record.error = move.result, move.reason, move.error
                self._tell(self._results, record)
        else:
            fields = {**hold.facts(), "outcome": move.outcome, "reason": move.reason}
            log.warning("late report refused", extra={"fields": fields})
        if hold.span is not None:
            refused = verdict is not Verdict.ACCEPTED
            settled(hold.span, REFUSED if refused else str(move.outcome), move.reason)
        if self._notices:
            self._notices.tell("settled", record=record, move=move, verdict=verdict)
        if log.isEnabledFor(logging.DEBUG):
            log.debug("job settled", extra={"fields": {**hold.facts(), "outcome": move.outcome}})

    def settle_committed(self, hold: Hold, record: JobRecord) -> None:
        """Lets go of an attempt that committed its own completion."""
        self.drop(hold)
        self._account.ended(record.queue, Ending.SUCCESS)
        if self._results is not None:
            self._tell(self._results, record)
        if hold.span is not None:
            settled(hold.span, Ending.SUCCESS)
        if self._notices:
            self._notices.tell("settled", record=record, move=None, verdict=Verdict.ACCEPTED)

    def close(self) -> None:
        """The worker ends: of what is still held here the store has not heard how it ended, if it did."""
        for hold in self.holds():
            if hold.span is not None:
                settled(hold.span, UNTOLD, "the worker ended before the store heard of it")

    def drop(self, hold: Hold) -> None:
        self._holds.pop((hold.record.id, hold.record.token), None)

    def _tell(self, results: Results, record: JobRecord) -> None:
        """Whoever waits can also ask the store; a listener that is gone must not hold up the others."""
        try:
            results.settled(record)
        except Exception:
            log.exception("cannot tell a result", extra={"fields": {"job": record.id}})
