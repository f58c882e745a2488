"""Where a group stands in a topic, as it is stored: read once, then written under the term."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from holdfast.engine import surroundings
from holdfast.engine.ids import new_id
from holdfast.model.errors import LeaseLost, VersionConflict
from holdfast.model.events import EventRecord, NewEvent
from holdfast.model.progress import Progress, Subscriber, as_write, decode, record_name
from holdfast.model.records import NewJob, Verdict
from holdfast.model.scheduling import ScheduleRecord, ScheduleWrite, Term, as_written
from holdfast.model.timing import SECOND
from holdfast.store import ScheduleStore

log = logging.getLogger("holdfast.events")

_TRIES = 20

Change = Callable[[Progress], Progress]


class Bookmark:
    """The progress of one subscriber under one term.

    Only the holder of the term moves the offset and takes lanes in or out; operators may write to the lanes
    that wait at any time. So the offset may run ahead of what is stored, and is put on top of whatever that
    has become.
    """

    def __init__(self, schedules: ScheduleStore, subscriber: Subscriber, term: Term) -> None:
        self._schedules = schedules
        self._term = term
        self._record: ScheduleRecord | None = None
        self._stored = 0
        self.told_at = 0
        """The store's now, when it was last asked."""
        self._asked = 0.0
        self.subscriber = subscriber
        self.progress = Progress(offset=0)
        self.saved = surroundings.now()

    @property
    def term(self) -> Term:
        return self._term

    @property
    def is_ahead(self) -> bool:
        """Whether the offset has run ahead of the store."""
        return self._record is None or self._stored < self.progress.offset

    def moment(self) -> int:
        """The store's now, as far as it is known here."""
        return self.told_at + round((surroundings.now() - self._asked) * SECOND)

    async def load(self) -> bool:
        """Reads what is stored; whether anything is. LeaseLost if the store has lost what it had."""
        told = await self._schedules.get([record_name(self.subscriber.group, self.subscriber.topic)])
        self.told_at, self._asked = told.now, surroundings.now()
        before, self._record = self._record, told.records[0] if told.records else None
        if self._record is None:
            return False
        if before is not None and self._record.version < before.version:
            # What is known here counts no more, not even the positions.
            raise LeaseLost(f"{self._term.lock}: the store has lost its last writes")
        _, stored = decode(self._record)
        self._stored = stored.offset
        ours = self.progress
        ahead = ours.offset > stored.offset
        self.progress = replace(stored, offset=ours.offset, event=ours.event) if ahead else stored
        return True

    def passed(self, event: EventRecord) -> None:
        """Goes on, and tells the store later."""
        self.progress = self.progress.passed(event)

    def write(
        self, progress: Progress, jobs: Sequence[NewJob] = (), events: Sequence[NewEvent] = ()
    ) -> ScheduleWrite:
        """What would store that progress, and add what belongs to it."""
        write = as_write(self.subscriber, progress, self._record, new_id())
        return replace(write, jobs=tuple(jobs), events=tuple(events))

    async def save(
        self,
        change: Change = lambda progress: progress,
        jobs: Sequence[NewJob] = (),
        events: Sequence[NewEvent] = (),
    ) -> None:
        """Stores what the change makes of the progress. LeaseLost if the term is over."""
        for _ in range(_TRIES):
            progress = change(self.progress)
            write = self.write(progress, jobs, events)
            verdicts = await self._schedules.write([write], self._term)
            if verdicts is None:
                raise LeaseLost(f"the term {self._term.token} of {self._term.lock} is over")
            if verdicts == [Verdict.ACCEPTED]:
                self._record = as_written(write)
                self.progress = progress
                self._stored = progress.offset
                self.saved = surroundings.now()
                return
            await self.load()
        raise VersionConflict(f"{self._term.lock} was changed by others {_TRIES} times in a row")


def readable(records: Sequence[ScheduleRecord]) -> list[tuple[ScheduleRecord, Subscriber, Progress]]:
    """Those of the records that this version can read; the others are named in the log."""
    found: list[tuple[ScheduleRecord, Subscriber, Progress]] = []
    for record in records:
        try:
            found.append((record, *decode(record)))
        except msgspec.MsgspecError as error:
            fields = {"record": record.name, "error": str(error)}
            log.warning("the progress of a group cannot be read; it is not listed", extra={"fields": fields})
    return found
