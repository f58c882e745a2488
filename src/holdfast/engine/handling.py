"""Has events handled, one at a time, and sets aside what fails."""

from __future__ import annotations

import contextvars
import logging
import random
from typing import Any

from holdfast.engine import surroundings
from holdfast.engine.bookmark import Bookmark, Change
from holdfast.engine.calling import call
from holdfast.engine.candidate import pause_after
from holdfast.engine.delivery import Delivery
from holdfast.engine.failures import failed
from holdfast.engine.notices import Notices
from holdfast.engine.tracing import begun, ended, settled
from holdfast.model.errors import LeaseLost, Undecodable, Undeliverable
from holdfast.model.events import EventRecord
from holdfast.model.outcome import Outcome, Succeeded, decide_again
from holdfast.model.progress import Progress, Waiting, lane_of
from holdfast.model.retry import Again, Failure
from holdfast.model.scheduling import Term
from holdfast.model.settings import Settings
from holdfast.model.subscription import Subscription
from holdfast.model.timing import SECOND
from holdfast.store import Session, Transactions

log = logging.getLogger("holdfast.events")


class Handling:
    """What becomes of single events of one subscription. `seen` is the last position that is known."""

    def __init__(
        self,
        subscription: Subscription,
        session: Session,
        transactions: Transactions | None,
        settings: Settings,
        notices: Notices,
        worker: str,
        state: Any,
    ) -> None:
        self.handled = 0
        self.seen = 0
        self.notices = notices
        self._subscription = subscription
        self._session = session
        self._transactions = transactions
        self._settings = settings
        self._worker = worker
        self._state = state

    async def deliver(self, bookmark: Bookmark, event: EventRecord, failures: int, change: Change) -> bool:
        """Has the event handled; the change is stored with its success. False if it is to be done again."""
        delivery = Delivery(
            event, failures, bookmark, change, self._settings, self._transactions, self.notices, self._worker
        )
        tracer = self.notices.tracer
        if tracer is None:
            return await self._deliver(bookmark, delivery, change, contextvars.Context())
        record, group = delivery.record, self._subscription.group
        context, delivery.span = begun(lambda: tracer.handling(group, event, record.run, self._worker))
        try:
            return await self._deliver(bookmark, delivery, change, context)
        finally:
            if delivery.span is not None:
                settled(delivery.span, delivery.outcome, delivery.reason)

    async def _deliver(
        self, bookmark: Bookmark, delivery: Delivery, change: Change, context: contextvars.Context
    ) -> bool:
        event, failures = delivery.event, delivery.record.failures
        before = bookmark.progress.waiting.get(lane_of(event))
        began = surroundings.now()
        error = await call(self._subscription, delivery, self._state, self._settings.kill_seconds, context)
        took = surroundings.now() - began
        if delivery.span is not None:
            ended(delivery.span, self._outcome(error))
        if delivery.is_joined or delivery.was_refused:
            await bookmark.load()
            if delivery.is_joined and _is_dealt_with(bookmark.progress, event):
                if delivery.has_more:
                    self.say("emitted or enqueued after the commit, so not stored", "events_left_out")
                delivery.outcome = "success"
                self.count(event, took)
                return True
            if delivery.was_refused:
                delivery.outcome = "refused"
                await self._insist(bookmark.term)
                return False
            error = error or RuntimeError("the handler ended, but its transaction was not committed")
        if error is not None:
            again, delivery.reason = await self.set_aside(bookmark, event, failures, error, before)
            delivery.outcome = "retry" if again else "parked"
            return True
        if delivery.jobs or delivery.events or lane_of(event) in bookmark.progress.waiting:
            await bookmark.save(change, delivery.jobs, delivery.events)
        else:
            bookmark.progress = change(bookmark.progress)
        delivery.outcome = "success"
        self.count(event, took)
        return True

    def _outcome(self, error: BaseException | None) -> Outcome:
        return Succeeded(None) if error is None else failed(error, self._settings.error_bytes)

    async def _insist(self, term: Term) -> None:
        """Raises LeaseLost if the term is over."""
        holder = await self._session.locks.holder(term.lock)
        if holder is None or (holder.owner, holder.token) != (term.owner, term.token):
            raise LeaseLost(f"the term {term.token} of {term.lock} is over")

    async def set_aside(
        self,
        bookmark: Bookmark,
        event: EventRecord,
        failures: int,
        error: BaseException,
        before: Waiting | None = None,
        *,
        passes: bool = True,
    ) -> tuple[bool, str]:
        """Has the event's lane wait, if that stands as it did `before`. With `passes` the group goes on.

        Tells whether it will be tried again, and the reason.
        """
        lane = lane_of(event)
        again, reason = self._decide(failures + 1, error)
        failures += again is None or again.count
        await bookmark.load()
        waiting = Waiting(
            position=event.position,
            event=event.id,
            failures=failures,
            retry_at=None if again is None else bookmark.told_at + round((again.after or 0) * SECOND),
            reason=reason,
            since=bookmark.told_at,
        )

        def change(progress: Progress) -> Progress:
            # A transaction that was believed to be lost may have been committed in the end, and what an
            # operator has wished of the lane meanwhile counts.
            if not _is_dealt_with(progress, event) and progress.waiting.get(lane) == before:
                progress = progress.set_aside(lane, waiting)
            return progress.passed(event) if passes else progress

        await bookmark.save(change)
        facts = {"event_id": event.id, "aggregate": event.aggregate, "failures": failures, "reason": reason}
        self.say("event failed", "event_failed", **facts)
        if again is None:
            self.say("event parked; replay or skip it", "event_parked", **facts)
        return again is not None, reason

    def _decide(self, failures: int, error: BaseException) -> tuple[Again | None, str]:
        """When to try again, and the reason to be shown."""
        reason = failed(error, self._settings.error_bytes).reason
        if isinstance(error, Undecodable | Undeliverable):
            return None, reason
        if self._subscription.relay is not None:
            return Again(pause_after(failures), count=False), reason
        failure = Failure(failures, failures, self._subscription.name, error)
        again, flaw = decide_again(failure, self._subscription.retry, random.random())
        return again, reason + flaw

    def count(self, event: EventRecord, seconds: float, count: int = 1) -> None:
        """Tells how far behind it is, too: by positions, of which some may be of other topics."""
        self.handled += count
        if self.notices:
            facts = {"seconds": seconds, "lag": max(0, self.seen - event.position)}
            self.notices.tell("event_consumed", **self.facts, count=count, **facts)

    @property
    def facts(self) -> dict[str, object]:
        return {"group": self._subscription.group, "topic": self._subscription.topic}

    def say(self, text: str, notice: str, **facts: object) -> None:
        known = {**self.facts, "worker": self._worker, **facts}
        log.warning(text, extra={"fields": known})
        if self.notices:
            self.notices.tell(notice, **known)


def _is_dealt_with(progress: Progress, event: EventRecord) -> bool:
    """Whether the store has passed the event, and does not have it at the head of a lane."""
    waiting = progress.waiting.get(lane_of(event))
    return progress.offset >= event.position and (waiting is None or waiting.position > event.position)
