"""A schedule together with what it fires, as data: how it is stored, and the jobs that come of it."""

from __future__ import annotations

from datetime import datetime
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.model.errors import ConfigurationError, InvalidEvent, InvalidJob
from holdfast.model.events import Event, NewEvent
from holdfast.model.flow import NewFlow
from holdfast.model.records import JobRecord, NewJob
from holdfast.model.recurrence import Recurrence, waits_for_run
from holdfast.model.schedule import Decision, Misfire, Overlap, Schedule, ScheduleState
from holdfast.model.scheduling import ScheduleRecord, ScheduleWrite
from holdfast.model.task import Call
from holdfast.model.timing import SECOND, moment

_TAIL_BITS = 74
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_decode_headers = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Firing(msgspec.Struct, frozen=True):
    """Why a job exists: the schedule, and the due time that it was fired for."""

    schedule: str
    due: datetime


class JobTemplate(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="job", tag_field="fires"
):
    """A job to be made again and again."""

    task: str
    queue: str
    payload: bytes
    priority: int = 0
    lease: int | None = None
    timeout: int | None = None
    retry: bytes | None = None
    key: str | None = None
    key_ttl: int = 0
    tags: tuple[str, ...] = ()
    flow: NewFlow | None = None

    @classmethod
    def of(cls, job: NewJob) -> JobTemplate:
        """What recurs of a job. One that says when it is due, or what its id is, cannot."""
        if job.due is not None or job.delay or not job.fresh:
            raise InvalidJob("call", "a scheduled call cannot have an id, a delay or a time of its own")
        return cls(
            task=job.task,
            queue=job.queue,
            payload=job.payload,
            priority=job.priority,
            lease=job.lease,
            timeout=job.timeout,
            retry=job.retry,
            key=job.key,
            key_ttl=job.key_ttl if job.key is not None else 0,
            tags=job.tags,
            flow=job.flow,
        )

    def job(self, schedule: str, due: int, job_due: int) -> NewJob:
        """The job of one firing: always the same id for the same firing."""
        return NewJob(
            id=firing_id(schedule, due),
            task=self.task,
            queue=self.queue,
            payload=self.payload,
            priority=self.priority,
            due=job_due,
            key=self.key,
            key_ttl=self.key_ttl,
            tags=self.tags,
            lease=self.lease,
            timeout=self.timeout,
            retry=self.retry,
            headers=_firing_header(schedule, due),
            flow=self.flow,
        )


class EventTemplate(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="event", tag_field="fires"
):
    """An event to be emitted again and again."""

    topic: str
    type: str
    data: bytes
    aggregate: str | None = None

    @classmethod
    def of(cls, event: NewEvent) -> EventTemplate:
        return cls(topic=event.topic, type=event.type, data=event.data, aggregate=event.aggregate)

    def event(self, schedule: str, due: int) -> NewEvent:
        """The event of one firing: always the same id for the same firing."""
        return NewEvent(
            id=firing_id(schedule, due),
            topic=self.topic,
            type=self.type,
            data=self.data,
            aggregate=self.aggregate,
            headers=_firing_header(schedule, due),
        )


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored as the definition of a schedule."""

    schedule: Schedule
    fires: JobTemplate | EventTemplate

    @classmethod
    def of(cls, schedule: Schedule, what: Call | Event[Any]) -> Plan:
        drawn = firing_id(schedule.name, 0)
        if isinstance(what, Call):
            return cls(schedule=schedule, fires=JobTemplate.of(what.to_new_job(drawn)))
        if what.id is not None:
            raise InvalidEvent("id", "a scheduled event cannot have an id of its own")
        if waits_for_run(schedule.recurrence):
            raise ConfigurationError(
                "an event has no run to count from; use anchor='rate'", setting="schedule.anchor"
            )
        if schedule.jitter:
            raise ConfigurationError(
                "an event is emitted at its due time; only jobs can be due later", setting="schedule.jitter"
            )
        # Nothing runs, so nothing overlaps.
        return cls(schedule=replace(schedule, overlap="allow"), fires=EventTemplate.of(what.stored(drawn)))

    @property
    def size(self) -> int:
        """About how many bytes one firing has."""
        return len(self.carried)

    @property
    def carried(self) -> bytes:
        """The arguments or the data of what is fired."""
        fires = self.fires
        return fires.data if isinstance(fires, EventTemplate) else fires.payload

    def encode(self) -> bytes:
        return msgspec.json.encode(self)

    def write(
        self,
        state: ScheduleState,
        before: ScheduleRecord | None,
        mark: str,
        decision: Decision | None = None,
    ) -> ScheduleWrite:
        """The schedule in this state, with the jobs or events of what was decided on `before`."""
        job = None if before is None else before.job
        jobs: tuple[NewJob, ...] = ()
        events: tuple[NewEvent, ...] = ()
        name, fires = self.schedule.name, self.fires
        firings = () if decision is None else decision.firings
        if isinstance(fires, EventTemplate):
            events = tuple(fires.event(name, firing.due) for firing in firings)
        else:
            jobs = tuple(fires.job(name, firing.due, firing.job_due) for firing in firings)
            job = jobs[-1].id if jobs else job
        rests = state.paused or state.waiting
        return ScheduleWrite(
            name=self.schedule.name,
            version=0 if before is None else before.version,
            mark=mark,
            after=None if before is None else before.mark,
            definition=self.encode(),
            state=msgspec.json.encode(state),
            look_at=None if rests else state.next_due,
            job=job,
            waits=state.waiting,
            jobs=jobs,
            events=events,
        )


class ScheduleInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as it stood when it was read.

    `missed` counts due times that passed without a firing because nobody was there to fire, `skipped` those
    that were left out because a run was under way. `job` is the job that was fired last. One that emits
    events has a `topic`, and neither task nor queue. Lists tell the `partition`, if there are several.
    """

    name: str
    recurrence: Recurrence
    task: str | None
    queue: str | None
    topic: str | None
    misfire: Misfire
    overlap: Overlap
    jitter: float
    paused: bool
    next_due: datetime | None
    last_due: datetime | None
    missed: int
    skipped: int
    running: bool
    job: str | None
    version: int
    partition: str | None = None

    @classmethod
    def of(cls, record: ScheduleRecord) -> ScheduleInfo:
        plan, state = decode(record)
        fires = plan.fires
        job = fires if isinstance(fires, JobTemplate) else None
        return cls(
            name=record.name,
            recurrence=plan.schedule.recurrence,
            task=None if job is None else job.task,
            queue=None if job is None else job.queue,
            topic=None if isinstance(fires, JobTemplate) else fires.topic,
            misfire=plan.schedule.misfire,
            overlap=plan.schedule.overlap,
            jitter=plan.schedule.jitter / SECOND,
            paused=state.paused,
            next_due=None if state.next_due is None else moment(state.next_due),
            last_due=None if state.last_due is None else moment(state.last_due),
            missed=state.missed,
            skipped=state.skipped,
            running=record.run is not None and record.run.live,
            job=record.job,
            version=record.version,
        )


_decode_plan = msgspec.json.Decoder(Plan).decode
_decode_state = msgspec.json.Decoder(ScheduleState).decode


def decode(record: ScheduleRecord) -> tuple[Plan, ScheduleState]:
    """What was stored. Raises msgspec.MsgspecError for what this version, or this machine, cannot read."""
    try:
        return _decode_plan(record.definition), _decode_state(record.state)
    except (ConfigurationError, UnicodeDecodeError, RecursionError) as error:
        raise msgspec.ValidationError(str(error)) from error


def is_paused(record: ScheduleRecord) -> bool:
    """Whether it is known to be paused, also if nothing else of it can be read."""
    try:
        return msgspec.json.decode(record.state, type=_Pause).paused
    except _UNREADABLE:
        return False


class _Pause(msgspec.Struct):
    paused: bool = False


class _Fires(msgspec.Struct):
    queue: str | None = None
    topic: str | None = None


class _Target(msgspec.Struct):
    fires: _Fires


def target_of(definition: bytes) -> tuple[str | None, str | None]:
    """The queue or the topic that a stored schedule fires into; neither if that cannot be read."""
    try:
        fires = msgspec.json.decode(definition, type=_Target).fires
    except _UNREADABLE:
        return None, None
    return fires.queue, fires.topic


def left_out(state: bytes) -> tuple[int, int]:
    """How many due times were missed, and how many skipped, by the stored state; 0 if that cannot be read."""
    try:
        told = msgspec.json.decode(state, type=_LeftOut)
    except _UNREADABLE:
        return 0, 0
    return told.missed, told.skipped


class _LeftOut(msgspec.Struct):
    missed: int = 0
    skipped: int = 0


def firing_id(schedule: str, due: int) -> str:
    """The id of a firing's job: a UUID of version 7 with the time of the due time."""
    drawn = int.from_bytes(blake2b(f"{schedule} {due}".encode(), digest_size=10).digest()) >> 80 - _TAIL_BITS
    millis = max(0, due // 1_000) & 0xFFFF_FFFF_FFFF
    middle, end = 0x8000 | drawn >> 48 & 0x3FFF, drawn & 0xFFFF_FFFF_FFFF
    return f"{millis >> 16:08x}-{millis & 0xFFFF:04x}-7{drawn >> 62:03x}-{middle:04x}-{end:012x}"


def _firing_header(schedule: str, due: int) -> bytes:
    return msgspec.json.encode({"firing": {"schedule": schedule, "due": due}})


def firing_of(record: JobRecord) -> Firing | None:
    """What a job was fired by; None for one that was enqueued."""
    told = _told(record.headers)
    return None if told is None else Firing(told.schedule, moment(told.due))


def schedule_of(headers: bytes | None) -> str | None:
    """The schedule that fired the job or event with these headers, as they tell it."""
    told = _told(headers)
    return None if told is None else told.schedule


class _Told(msgspec.Struct):
    schedule: str
    due: int


def _told(headers: bytes | None) -> _Told | None:
    if headers is None:
        return None
    try:
        told = _decode_headers(headers).get("firing")
        return None if told is None else msgspec.json.decode(told, type=_Told)
    except _UNREADABLE:
        return None
