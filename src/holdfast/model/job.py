"""A job as the user sees it: immutable, with times as datetimes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from holdfast.model.flow import Flow
from holdfast.model.lifecycle import FINISHED, Ending, State
from holdfast.model.records import AttemptRecord, JobRecord
from holdfast.model.timing import Seconds, moment

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class ResultSource(Protocol[T_co]):
    """Where a job's result comes from; given to the job by whoever made it."""

    async def wait(self, job_id: str, timeout: Seconds | None) -> T_co: ...


class Job(msgspec.Struct, Generic[T], frozen=True, kw_only=True, eq=False):
    """One stored unit of work, as it stood when it was read.

    `worker` is the one that holds it, None when nobody does; who ran it before is told by its history.
    `parked` is what held it back when it was last looked at, such as `key:tenant-7`; `explain` says more.
    """

    id: str
    task: str
    queue: str
    state: State
    priority: int
    due: datetime
    run: int
    failures: int
    lost: int
    version: int
    token: int
    worker: str | None
    key: str | None
    tags: tuple[str, ...]
    created: datetime
    started: datetime | None
    finished: datetime | None
    reason: str | None
    error: str | None
    progress: float | None = None
    progress_note: str | None = None
    cancel_asked: bool = False
    limit_key: str | None = None
    fair_key: str | None = None
    sequence_key: str | None = None
    expires: datetime | None = None
    parked: str | None = None
    _source: ResultSource[T] | None = None

    def facts(self) -> dict[str, Any]:
        """What is known of the job, by name."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name != "_source"}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and self.facts() == other.facts()

    def __hash__(self) -> int:
        return hash((self.id, self.version))

    def __repr__(self) -> str:
        return f"Job({', '.join(f'{name}={value!r}' for name, value in self.facts().items())})"

    @property
    def is_finished(self) -> bool:
        return self.state in FINISHED

    async def result(self, timeout: Seconds | None = None) -> T:
        """The value that the task returned, waiting for it.

        Raises JobFailed, JobCancelled, ResultNotKept, JobGone, or TimeoutError when `timeout` passes first.
        """
        if self._source is None:
            raise RuntimeError("this job was not read through an application, so it cannot wait for a result")
        return await self._source.wait(self.id, timeout)

    @classmethod
    def from_record(cls, record: JobRecord, source: ResultSource[T] | None = None) -> Job[T]:
        flow = record.flow
        job = cls(
            id=record.id,
            task=record.task,
            queue=record.queue,
            state=record.state,
            priority=record.priority,
            due=moment(record.due),
            run=record.run,
            failures=record.failures,
            lost=record.lost,
            version=record.version,
            token=record.token,
            worker=record.worker,
            key=record.key,
            tags=record.tags,
            created=moment(record.created),
            started=None if record.started is None else moment(record.started),
            finished=None if record.finished is None else moment(record.finished),
            reason=record.reason,
            error=record.error,
            progress=record.progress,
            progress_note=record.progress_note,
            cancel_asked=record.cancel_asked,
            _source=source,
        )
        return job if flow is None else _with(job, flow)


def _with(job: Job[T], flow: Flow) -> Job[T]:
    """What few jobs have, and the others are made without."""
    return msgspec.structs.replace(
        job,
        limit_key=flow.limit_key,
        fair_key=flow.fair_key,
        sequence_key=flow.sequence,
        expires=None if flow.expires is None else moment(flow.expires),
        parked=flow.parked,
    )


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a job, ended."""

    run: int
    token: int
    worker: str
    started: datetime | None
    finished: datetime
    outcome: Ending
    reason: str | None
    error: str | None = None

    @classmethod
    def from_record(cls, record: AttemptRecord) -> Attempt:
        return cls(
            run=record.run,
            token=record.token,
            worker=record.worker,
            started=None if record.started is None else moment(record.started),
            finished=moment(record.finished),
            outcome=record.outcome,
            reason=record.reason,
            error=record.error,
        )
