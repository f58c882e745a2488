"""The values that cross the seam, encrypted for a namespace, and decrypted again."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.model.events import EventPage, EventRecord, NewEvent
from holdfast.model.plan import schedule_of
from holdfast.model.records import Added, JobRecord, Move, NewJob
from holdfast.model.scheduling import ScheduleRecord, Schedules, ScheduleWrite
from holdfast.model.sealed import Kind
from holdfast.stores.sealed.keyring import Keyring

_FIELDS = {"job": ("payload", "task"), "event": ("data", "topic")}
"""Of a schedule that fires jobs or events: what is encrypted, and the name that it belongs to."""


class Seal:
    """What a keyring does with the values of one namespace.

    The arguments of a job belong to its task and id, its result to its id, the data of an event to its topic,
    type, aggregate and id: what was copied from one to another cannot be read there. What a schedule fires
    belongs to the schedule, and may be had by the jobs and events that say they were fired by it: whoever
    fires them needs no key.
    """

    def __init__(self, keyring: Keyring, namespace: str) -> None:
        self._seal = keyring.seal
        self._open = keyring.open
        self._namespace = namespace

    def jobs(self, jobs: Iterable[NewJob]) -> list[NewJob]:
        space = self._namespace
        return [
            replace(job, payload=self._seal(job.payload, Kind.ARGUMENTS, space, job.task, job.id))
            for job in jobs
        ]

    def events(self, events: Iterable[NewEvent]) -> list[NewEvent]:
        space = self._namespace
        return [replace(each, data=self._seal(each.data, Kind.EVENT, space, *_home(each))) for each in events]

    def move(self, move: Move) -> Move:
        if move.result is None and not move.children and not move.events:
            return move
        result = move.result
        return replace(
            move,
            result=None if result is None else self._seal(result, Kind.RESULT, self._namespace, move.job),
            children=tuple(self.jobs(move.children)),
            events=tuple(self.events(move.events)),
        )

    def record(self, stored: JobRecord) -> JobRecord:
        """The job, decrypted. The one that was given may be the store's own."""
        record = copy(stored)

        def place(kind: int) -> Sequence[str] | None:
            if kind == Kind.TEMPLATE:
                schedule = schedule_of(record.headers)
                return None if schedule is None else (schedule, record.task)
            return (record.task, record.id) if kind == Kind.ARGUMENTS else None

        record.payload = self._open(record.payload, self._namespace, place)
        if record.result is not None:
            record.result = self._open(
                record.result, self._namespace, lambda kind: (record.id,) if kind == Kind.RESULT else None
            )
        return record

    def records(self, stored: Iterable[JobRecord]) -> list[JobRecord]:
        return [self.record(each) for each in stored]

    def answers(self, jobs: Sequence[NewJob], answers: Sequence[Added]) -> list[Added]:
        """What was added. Equal arguments never look equal to a store, so that is decided here."""
        return [self._answer(job, added) for job, added in zip(jobs, answers, strict=True)]

    def _answer(self, job: NewJob, added: Added) -> Added:
        record, conflict = self.record(added.record), added.conflict
        if conflict is not None and (record.task, record.payload) == (job.task, job.payload):
            is_same = conflict == "key" or record.queue == job.queue
            conflict = None if is_same else conflict
        return Added(record=record, created=added.created, conflict=conflict)

    def page(self, page: EventPage) -> EventPage:
        return EventPage(records=[self._event(each) for each in page.records], upto=page.upto)

    def _event(self, record: EventRecord) -> EventRecord:
        def place(kind: int) -> Sequence[str] | None:
            if kind == Kind.TEMPLATE:
                schedule = schedule_of(record.headers)
                return None if schedule is None else (schedule, record.topic)
            return _home(record) if kind == Kind.EVENT else None

        return replace(record, data=self._open(record.data, self._namespace, place))

    def write(self, write: ScheduleWrite) -> ScheduleWrite:
        return replace(
            write,
            definition=self._template(write.name, write.definition, is_sealed=False),
            jobs=tuple(self.jobs(write.jobs)),
            events=tuple(self.events(write.events)),
        )

    def schedules(self, told: Schedules) -> Schedules:
        return replace(told, records=[self._schedule(each) for each in told.records])

    def _schedule(self, record: ScheduleRecord) -> ScheduleRecord:
        return replace(record, definition=self._template(record.name, record.definition, is_sealed=True))

    def _template(self, schedule: str, definition: bytes, *, is_sealed: bool) -> bytes:
        """The definition with what it fires encrypted or decrypted; as it is if it has nothing of that."""
        try:
            document: Any = msgspec.json.decode(definition)
            fires = document["fires"]
            field, name = _FIELDS[fires["fires"]]
            data, belongs = b64decode(fires[field]), fires[name]
        except (msgspec.MsgspecError, TypeError, KeyError, ValueError, RecursionError):
            return definition
        if not isinstance(belongs, str):
            return definition
        place = (schedule, belongs)
        if is_sealed:
            changed = self._open(data, self._namespace, lambda kind: place if kind == Kind.TEMPLATE else None)
        else:
            changed = self._seal(data, Kind.TEMPLATE, self._namespace, *place)
        fires[field] = b64encode(changed).decode()
        return msgspec.json.encode(document)


def _home(event: NewEvent | EventRecord) -> tuple[str, ...]:
    return event.topic, event.type, event.id, event.aggregate or ""
