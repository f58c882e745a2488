"""What applications ask of the store: enqueue, look, steer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, NoReturn, TypeVar
from uuid import UUID

from holdfast.engine.emitter import Emitter
from holdfast.engine.ids import new_id, new_ids
from holdfast.engine.leader import LeaderInfo, who_leads
from holdfast.engine.lock_list import held_locks
from holdfast.engine.locks import Locks
from holdfast.engine.notices import Notices
from holdfast.engine.partition import placing
from holdfast.engine.partition_enqueuer import make_enqueuer
from holdfast.engine.results import Results
from holdfast.engine.tracing import following
from holdfast.engine.why import why
from holdfast.model.errors import (
    IdConflict,
    InvalidJob,
    JobGone,
    KeyConflict,
    StateConflict,
    VersionConflict,
)
from holdfast.model.events import Event, NewEvent, check_event
from holdfast.model.explanation import Explanation
from holdfast.model.job import Attempt, Job, ResultSource
from holdfast.model.lifecycle import FINISHED, LEASED, WAITING, State
from holdfast.model.names import check_id, check_name, known_id
from holdfast.model.options import NO_OPTIONS, Options
from holdfast.model.overview import LockInfo, Stats, WorkerInfo
from holdfast.model.records import Added, Edit, JobRecord, NewJob, Query
from holdfast.model.settings import Settings
from holdfast.model.task import Call, Registry, check_calls
from holdfast.model.timing import Seconds, instant, micros
from holdfast.store import Session

MOST_FOUND = 1_000
MOST_COUNTED = 5_000
"""So many waiting jobs are counted one by one where they need not be exact."""

_TRIES = 20
_make_job = Job[Any].from_record
X = TypeVar("X")

JobId = str | UUID
States = State | str | Iterable[State | str]


def _new_jobs(calls: Sequence[Call]) -> list[NewJob]:
    return [call.to_new_job(drawn) for call, drawn in zip(calls, new_ids(len(calls)), strict=True)]


def _parted(whole: Sequence[X], size: int) -> Iterable[list[X]]:
    return (list(whole[start : start + size]) for start in range(0, len(whole), size))


class CancelAnswer(StrEnum):
    """What `cancel` did: the job is cancelled, its holder was asked to stop, or it had finished before."""

    CANCELLED = "cancelled"
    ASKED = "asked"
    FINISHED = "finished"


class Page(list[Job[Any]]):
    """Jobs that were found, newest first. `cursor` asks for the next page; None when this was the last."""

    cursor: str | None = None


class Client:
    """One session's way to the jobs of a namespace. Belongs to the event loop that it was made on.

    `source` is where its jobs wait for results, if they may outlive it.
    """

    def __init__(
        self,
        session: Session,
        settings: Settings,
        registry: Registry,
        *,
        locks: Locks,
        notices: Notices | None = None,
        source: ResultSource[Any] | None = None,
    ) -> None:
        self.session = session
        self.settings = settings
        self.results = Results(session, registry)
        self.locks = locks
        self.notices = notices
        self._source: ResultSource[Any] = source or self.results
        self._jobs = session.jobs
        self._registry = registry
        self._emitter = Emitter(session.events, settings.enqueue_timeout_seconds)
        self._place = placing(session)
        self._enqueuer = make_enqueuer(
            session, batch=settings.batch, timeout=settings.enqueue_timeout_seconds
        )

    async def close(self) -> None:
        """Waits for enqueues and releases under way, ends the waiting for results, and closes the session."""
        await self._enqueuer.close()
        await self.locks.close()
        await self.results.close()
        await self.session.close()

    async def enqueue(self, job: NewJob) -> Added:
        """Stores a job, or finds the one that its key or id already stands for."""
        (added,) = await self._enqueuer.add((job,))
        if added.conflict is not None:
            refuse(job, added)
        return added

    async def add(self, jobs: Sequence[NewJob]) -> list[Added]:
        """Stores jobs, at most a batch, in one commit."""
        with following(self.notices, jobs) as trip:
            trip.answers = answers = await self._enqueuer.add(trip.jobs)
        return answers

    async def submit(self, call: Call) -> Job[Any]:
        """Stores the job of a call; the job as it then stands."""
        [job] = self._place([call.to_new_job(new_id())])
        if self.notices is None or self.notices.tracer is None:
            return self.job((await self.enqueue(job)).record)
        with following(self.notices, [job]) as trip:
            trip.answers = [added] = [await self.enqueue(trip.jobs[0])]
        return self.job(added.record)

    async def enqueue_many(
        self, calls: Iterable[Call], *, events: Sequence[Event[Any]] = ()
    ) -> list[Job[Any]]:
        """Stores many, a batch per commit. A conflict is raised after the others are stored.

        With `events`, these and all the jobs that do not conflict are stored in one commit. Otherwise, if the
        store fails after some batches it is OutcomeUnknown, which says how many jobs are stored; with ids or
        keys of their own they can all be given again.
        """
        checked = check_calls(calls)
        if events:
            return await self._enqueue_with(_new_jobs(checked), events)
        if self.notices is not None and self.notices.tracer is not None:
            with following(self.notices, self._place(_new_jobs(checked))) as trip:
                return await self._add_many(checked, _parted(trip.jobs, self.settings.batch))
        parts = (_new_jobs(part) for part in _parted(checked, self.settings.batch))
        return await self._add_many(checked, map(self._place, parts))

    async def _add_many(self, checked: Sequence[Call], parts: Iterable[list[NewJob]]) -> list[Job[Any]]:
        # The first of two jobs with one key is the one that counts; and jobs may come after each other.
        is_keyed = any(call.options.is_ordered for call in checked if call.options is not NO_OPTIONS)
        made: list[Job[Any]] = []
        refused: tuple[NewJob, Added] | None = None
        async for answers in self._enqueuer.add_many(parts, in_order=is_keyed):
            for job, added in answers:
                if added.conflict is not None:
                    refused = refused or (job, added)
                made.append(self.job(added.record))
        if refused is not None:
            refuse(*refused)
        return made

    async def _enqueue_with(self, jobs: list[NewJob], events: Sequence[Event[Any]]) -> list[Job[Any]]:
        limit = self.settings.payload_bytes
        new = [check_event(event).stored(new_id(), limit) for event in events]
        answers = await self._append(new, jobs)
        for job, added in zip(jobs, answers, strict=True):
            if added.conflict is not None:
                refuse(job, added)
        return [self.job(added.record) for added in answers]

    async def emit(self, events: Sequence[NewEvent]) -> list[str]:
        """Stores events, all of them or none; their ids."""
        await self._append(events)
        return [event.id for event in events]

    async def _append(self, events: Sequence[NewEvent], jobs: Sequence[NewJob] = ()) -> list[Added]:
        with following(self.notices, jobs, events) as trip:
            trip.answers = answers = await self._emitter.append(trip.events, trip.jobs)
        if self.notices:
            for event in events:
                self.notices.tell("events_appended", topic=event.topic, count=1)
        return answers

    def job(self, record: JobRecord) -> Job[Any]:
        return _make_job(record, self._source)

    async def get(self, job_id: JobId) -> Job[Any] | None:
        """The job; None for an id that was never there or is gone."""
        record = await self._find_record(job_id)
        return None if record is None else self.job(record)

    async def result(self, job_id: JobId, timeout: Seconds | None = None) -> Any:
        """Waits for the job's result, as `Job.result` does."""
        return await self.results.wait(str(job_id), timeout)

    async def find(
        self,
        *,
        state: States = (),
        queue: str | None = None,
        task: str | None = None,
        tag: str | None = None,
        worker: str | None = None,
        due_after: datetime | None = None,
        due_before: datetime | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page:
        """Jobs that fit all that is given, newest first."""
        if not 1 <= limit <= MOST_FOUND:
            raise InvalidJob("limit", f"{limit!r} is not between 1 and {MOST_FOUND}")
        records = await self._jobs.find(
            Query(
                states=_states(state),
                queue=_optional_name(queue, "queue"),
                task=_optional_name(task, "task"),
                tag=_optional_name(tag, "tag"),
                worker=_optional_name(worker, "worker"),
                due_after=None if due_after is None else instant(due_after, "due_after"),
                due_before=None if due_before is None else instant(due_before, "due_before"),
                cursor=None if cursor is None else check_id(cursor, "cursor"),
                limit=limit,
            )
        )
        page = Page(self.job(record) for record in records)
        page.cursor = records[-1].id if len(records) == limit else None
        return page

    async def stats(self, *, exact: bool = False) -> Stats:
        """How many jobs there are. Unless `exact`, a store may estimate what it has too many of to count."""
        return Stats.of(await self._jobs.count(None if exact else MOST_COUNTED))

    async def workers(self) -> list[WorkerInfo]:
        return [WorkerInfo.from_record(record) for record in await self.session.fleet.workers()]

    async def leader(self) -> LeaderInfo | None:
        """Who fires schedules now; None while nobody does."""
        return await who_leads(self.session.locks)

    async def held_locks(self, limit: int = 100, after: str | None = None) -> list[LockInfo]:
        """Locks that are held now, by name, Holdfast's own among them; the next page is behind the last."""
        return await held_locks(self.session, limit, after)

    async def history(self, job_id: JobId) -> list[Attempt]:
        """Ended attempts, oldest first; empty for a job that is not there."""
        known = known_id(job_id)
        if known is None:
            return []
        return [Attempt.from_record(record) for record in await self._jobs.history(known)]

    async def explain(self, job_id: JobId) -> Explanation:
        """Why the job is not running, or what became of it."""
        record = await self._find_record(job_id)
        return await why(self.session, self._registry, self.settings, str(job_id), record)

    async def cancel(self, job_id: JobId) -> CancelAnswer:
        """Cancels a waiting job at once; asks the holder of a leased one to stop."""

        def decide(record: JobRecord) -> Edit | None:
            if record.state in FINISHED or (record.state in LEASED and record.cancel_asked):
                return None
            if record.state in LEASED:
                return Edit(ask_cancel=True)
            return Edit(path=(record.state, State.CANCELLED))

        record = await self._change(job_id, decide)
        if record.state is State.CANCELLED:
            return CancelAnswer.CANCELLED
        return CancelAnswer.FINISHED if record.state in FINISHED else CancelAnswer.ASKED

    async def replay(
        self, job_id: JobId, *, key: str | None = None, key_ttl: Seconds | None = None
    ) -> Job[Any]:
        """Gives a dead or failed job all its attempts again, from now on; under a new key if one is given."""
        ttl = self.settings.key_ttl_seconds if key_ttl is None else key_ttl
        held = 0 if key is None else micros(ttl, "key_ttl")
        key = None if key is None else check_name(key, "key")

        def decide(record: JobRecord) -> Edit:
            if record.state not in {State.DLQ, State.FAILED}:
                raise StateConflict(
                    f"job {record.id} is {record.state}; only dlq and failed ones are replayed"
                )
            path = (record.state, State.SCHEDULED)
            return Edit(path=path, delay=0, failures=0, lost=0, suspect=False, key=key, key_ttl=held)

        return self.job(await self._change(job_id, decide))

    async def edit(
        self,
        job_id: JobId,
        *,
        version: int | None = None,
        queue: str | None = None,
        priority: int | None = None,
        delay: Seconds | None = None,
        at: datetime | None = None,
        tags: Sequence[str] | None = None,
    ) -> Job[Any]:
        """Changes a waiting or dead job. With a `version`, VersionConflict if somebody changed it since."""
        said = Options.of(queue=queue, priority=priority, delay=delay, at=at, tags=tags)
        if said == NO_OPTIONS:
            raise InvalidJob("edit", "nothing was given to change; give queue, priority, delay, at or tags")
        edit = Edit(queue=said.queue, priority=said.priority, delay=said.delay, due=said.at, tags=said.tags)

        def decide(record: JobRecord) -> Edit:
            if version is not None and record.version != version:
                if self.notices:
                    self.notices.tell("version_conflict", of="job")
                raise VersionConflict(
                    f"job {record.id} has version {record.version}, not {version}: somebody changed it; "
                    "read it again and decide anew"
                )
            if record.state not in WAITING and record.state is not State.DLQ:
                raise StateConflict(
                    f"job {record.id} is {record.state}; only scheduled, retry and dlq jobs are edited"
                )
            return edit

        return self.job(await self._change(job_id, decide))

    async def delete(self, job_id: JobId) -> bool:
        """Removes the job with its history and key; False if it was not there."""
        record = await self._find_record(job_id)
        if record is None:
            return False
        if not await self._jobs.delete(record.id):
            raise StateConflict(f"job {record.id} is being run; cancel it first, then delete it")
        return True

    async def _change(self, job_id: JobId, decide: Callable[[JobRecord], Edit | None]) -> JobRecord:
        """Reads, decides, and writes if nobody was faster; else again. No edit leaves the job as it is."""
        for _ in range(_TRIES):
            record = await self._find_record(job_id)
            if record is None:
                raise JobGone(f"no job {ascii(str(job_id))[:60]} is stored")
            edit = decide(record)
            changed = record if edit is None else await self._jobs.edit(record.id, record.version, edit)
            if changed is not None:
                return changed
        raise VersionConflict(f"job {job_id} was changed by others {_TRIES} times in a row; try again")

    async def _find_record(self, job_id: JobId) -> JobRecord | None:
        known = known_id(job_id)
        return None if known is None else await self._jobs.get(known)


def refuse(job: NewJob, added: Added) -> NoReturn:
    """Raises what a conflict means to the caller."""
    if added.conflict == "key":
        raise KeyConflict(
            f"key {job.key!r} belongs to job {added.record.id}, of another task or with other arguments"
        )
    raise IdConflict(f"id {job.id} belongs to a job of another task or queue, or with other arguments")


def _optional_name(value: str | None, field: str) -> str | None:
    return None if value is None else check_name(value, field)


def _states(state: States) -> frozenset[State]:
    given: Iterable[str] = [state] if isinstance(state, str) else state
    try:
        return frozenset(State(each) for each in given)
    except ValueError as error:
        raise InvalidJob("state", f"{error}; use {', '.join(State)}") from None
