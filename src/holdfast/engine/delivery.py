"""One event on its way to one handler."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from holdfast.engine.bookmark import Bookmark, Change
from holdfast.engine.context import Link
from holdfast.engine.ids import new_id
from holdfast.engine.notices import Notices
from holdfast.engine.tracing import Span, made
from holdfast.model.events import Event, EventRecord, NewEvent
from holdfast.model.lifecycle import State
from holdfast.model.outcome import Stop
from holdfast.model.records import JobRecord, NewJob, Verdict
from holdfast.model.scheduling import ScheduleWrite
from holdfast.model.settings import Settings
from holdfast.model.task import Call
from holdfast.store import Transactions


class Delivery(Link):
    """The link of a handler of events. Its success is the progress of its group.

    What a transaction takes along is the progress as it was when the attempt began: one that commits after
    its attempt was given up is refused, because something else has been written by then. `was_refused` tells
    that a transaction could not take the progress along, so it must not be committed; `is_joined`, that one
    could.
    """

    def __init__(
        self,
        event: EventRecord,
        failures: int,
        bookmark: Bookmark,
        change: Change,
        settings: Settings,
        transactions: Transactions | None,
        notices: Notices,
        worker: str,
    ) -> None:
        self.event = event
        self.jobs: list[NewJob] = []
        self.events: list[NewEvent] = []
        self.told: Stop | None = None
        self.was_refused = False
        self.is_joined = False
        self.span: Span | None = None
        self.outcome = "lost"
        self.reason: str | None = None
        self._term = bookmark.term
        self._write = bookmark.write(change(bookmark.progress))
        self._settings = settings
        self._transactions = transactions
        self._notices = notices
        self._taken = 0
        self.record = JobRecord(
            id=event.id,
            task=f"{bookmark.subscriber.group}/{event.topic}",
            queue=event.topic,
            payload=event.data,
            state=State.RUNNING,
            priority=0,
            due=event.at,
            created=event.at,
            run=failures + 1,
            failures=failures,
            token=bookmark.term.token,
            worker=worker,
            headers=event.headers,
            key=f"{event.id}/{bookmark.subscriber.group}",
        )

    @property
    def has_more(self) -> bool:
        """Whether there are jobs or events that no transaction has taken along."""
        return len(self.jobs) + len(self.events) > self._taken

    @property
    def stop(self) -> Stop | None:
        return self.told

    @property
    def transactions(self) -> Transactions | None:
        return self._transactions

    def progress(self, fraction: float, note: str | None) -> None:
        """Nobody is shown how far the handling of an event is."""

    def enqueue(self, call: Call) -> str:
        job = made(self._notices, call.to_new_job(new_id()))
        self.jobs.append(job)
        return job.id

    def emit(self, event: Event[Any]) -> str:
        new = made(self._notices, event.stored(new_id(), self._settings.payload_bytes))
        self.events.append(new)
        return new.id

    async def complete_in(self, transactions: Transactions, connection: Any, value: object) -> Verdict:
        namespace = self._settings.namespace
        return self._joined(await transactions.write_in(connection, namespace, self._whole(), self._term))

    def complete_in_sync(self, transactions: Transactions, connection: Any, value: object) -> Verdict:
        namespace = self._settings.namespace
        return self._joined(transactions.write_in_sync(connection, namespace, self._whole(), self._term))

    def committed(self) -> None:
        """Whether it was is seen in the store."""

    def _whole(self) -> ScheduleWrite:
        """The progress, under a mark of its own for each transaction, with what belongs to it."""
        self._taken = len(self.jobs) + len(self.events)
        return replace(self._write, mark=new_id(), jobs=tuple(self.jobs), events=tuple(self.events))

    def _joined(self, verdict: Verdict) -> Verdict:
        if verdict is Verdict.ACCEPTED:
            self.is_joined = True
        else:
            self.was_refused = True
        return verdict
