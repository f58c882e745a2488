"""A schedule together with what it fires, as data: how it is stored, and the jobs that come of it."""

from __future__ import annotations

from datetime import datetime
from hashlib import blake2b

import msgspec

from holdfast.model.errors import ConfigurationError, InvalidJob
from holdfast.model.records import JobRecord, NewJob
from holdfast.model.recurrence import Recurrence
from holdfast.model.schedule import Decision, Misfire, Overlap, Schedule, ScheduleState
from holdfast.model.scheduling import ScheduleRecord, ScheduleWrite
from holdfast.model.task import Call
from holdfast.model.timing import SECOND, moment

_TAIL_BITS = 74
_decode_headers = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Firing(msgspec.Struct, frozen=True):
    """Why a job exists: the schedule, and the due time that it was fired for."""

    schedule: str
    due: datetime


class JobTemplate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="job"):
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
            headers=msgspec.json.encode({"firing": {"schedule": schedule, "due": due}}),
        )


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored as the definition of a schedule."""

    schedule: Schedule
    job: JobTemplate

    @classmethod
    def of(cls, schedule: Schedule, call: Call) -> Plan:
        return cls(schedule=schedule, job=JobTemplate.of(call.to_new_job(firing_id(schedule.name, 0))))

    def encode(self) -> bytes:
        return msgspec.json.encode(self)

    def write(
        self,
        state: ScheduleState,
        before: ScheduleRecord | None,
        mark: str,
        decision: Decision | None = None,
    ) -> ScheduleWrite:
        """The schedule in this state, with the jobs of what was decided on `before`."""
        job = None if before is None else before.job
        jobs: tuple[NewJob, ...] = ()
        if decision is not None and decision.firings:
            name = self.schedule.name
            jobs = tuple(self.job.job(name, firing.due, firing.job_due) for firing in decision.firings)
            job = jobs[-1].id
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
        )


class ScheduleInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as it stood when it was read.

    `missed` counts due times that passed without a firing because nobody was there to fire, `skipped` those
    that were left out because a run was under way. `job` is the job that was fired last.
    """

    name: str
    recurrence: Recurrence
    task: str
    queue: str
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

    @classmethod
    def of(cls, record: ScheduleRecord) -> ScheduleInfo:
        plan, state = decode(record)
        return cls(
            name=record.name,
            recurrence=plan.schedule.recurrence,
            task=plan.job.task,
            queue=plan.job.queue,
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
    except ConfigurationError as error:
        raise msgspec.ValidationError(str(error)) from error


def is_paused(record: ScheduleRecord) -> bool:
    """Whether it is known to be paused, also if nothing else of it can be read."""
    try:
        return msgspec.json.decode(record.state, type=_Pause).paused
    except msgspec.MsgspecError:
        return False


class _Pause(msgspec.Struct):
    paused: bool = False


def firing_id(schedule: str, due: int) -> str:
    """The id of a firing's job: a UUID of version 7 with the time of the due time."""
    drawn = int.from_bytes(blake2b(f"{schedule} {due}".encode(), digest_size=10).digest()) >> 80 - _TAIL_BITS
    millis = max(0, due // 1_000) & 0xFFFF_FFFF_FFFF
    middle, end = 0x8000 | drawn >> 48 & 0x3FFF, drawn & 0xFFFF_FFFF_FFFF
    return f"{millis >> 16:08x}-{millis & 0xFFFF:04x}-7{drawn >> 62:03x}-{middle:04x}-{end:012x}"


def firing_of(record: JobRecord) -> Firing | None:
    """What a job was fired by; None for one that was enqueued."""
    if record.headers is None:
        return None
    try:
        told = _decode_headers(record.headers).get("firing")
        if told is None:
            return None
        known = msgspec.json.decode(told, type=_Told)
    except msgspec.MsgspecError:
        return None
    return Firing(known.schedule, moment(known.due))


class _Told(msgspec.Struct):
    schedule: str
    due: int
