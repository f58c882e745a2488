"""Batches: jobs that belong together, and a job that runs once when all of them are done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from msgspec.structs import replace

from holdfast.engine.client import Client, JobId, refuse
from holdfast.engine.ids import new_id
from holdfast.model.errors import InvalidJob, JobGone, StateConflict, StoreError
from holdfast.model.flow import NewFlow
from holdfast.model.job import Job
from holdfast.model.lifecycle import State
from holdfast.model.names import check_id
from holdfast.model.records import JobRecord, NewJob
from holdfast.model.task import CLOSING, Call, check_call, check_calls

PAGE = 500
_AT_ONCE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchInfo:
    """How far a batch is.

    Of its jobs some are `pending`, and some `failed`, which is to say ended in another way than with success.
    It `is_open` while its maker can still add jobs. `state` is that of the job that comes when all are done.
    """

    id: str
    total: int
    pending: int
    failed: int
    is_open: bool
    state: State

    @property
    def succeeded(self) -> int:
        return self.total - self.pending - self.failed

    @property
    def is_done(self) -> bool:
        """Whether all jobs are finished and no more can come."""
        return not self.is_open and not self.pending


class Batch:
    """A batch that is being filled: `async with app.batch(...) as batch:`, then `await batch.add(...)`.

    Leaving the block closes it; leaving it by an exception cancels it.
    """

    def __init__(self, batches: Batches, closing: Call) -> None:
        self.id = new_id()
        self._batches = batches
        self._closing = _closing_job(closing, self.id)
        self._goes_with_first = closing.definition is CLOSING
        self._may_be_stored = False
        self._is_stored = False
        self._is_closed = False

    async def add(self, *calls: Call) -> list[Job[Any]]:
        """Stores jobs of the batch; they may begin at once.

        A call whose key is taken gives the job that has the key, which does not become part of the batch.
        """
        if self._is_closed:
            raise StateConflict(f"batch {self.id} is closed; make another one")
        jobs = [call.in_batch(self.id).to_new_job(new_id()) for call in check_calls(calls)]
        return (await self._store(jobs))[-len(jobs) :] if jobs else []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_closed = True
        if error is None:
            await self._store([])
            await self._batches.close(self.id)
        elif self._may_be_stored:
            await self._abandon(error)

    async def _abandon(self, error: BaseException) -> None:
        """Cancels the batch as far as it is stored; the error is the one that counts."""
        try:
            await self._batches.cancel(self.id)
        except JobGone:
            return
        except StoreError as failure:
            error.add_note(f"batch {self.id} is still open, because it could not be cancelled: {failure}")

    async def info(self) -> BatchInfo:
        return await self._batches.get(self.id)

    async def _store(self, jobs: list[NewJob]) -> list[Job[Any]]:
        if not self._may_be_stored and self._goes_with_first and jobs:
            # Where there are workers for the batch, there is one for its end.
            self._closing = replace(self._closing, queue=jobs[0].queue)
        self._may_be_stored = True
        made = await self._batches.store(jobs if self._is_stored else [self._closing, *jobs])
        self._is_stored = True
        return made


class Batches:
    """The batches of a namespace."""

    def __init__(self, client: Callable[[], Client]) -> None:
        self._client = client

    async def get(self, batch_id: JobId) -> BatchInfo:
        """How far a batch is; JobGone for one that is not stored."""
        closing = await self._closing(batch_id)
        awaited = await self._client().session.flow.awaited(closing.id)
        if awaited is None:
            raise JobGone(f"no batch {closing.id} is stored")
        return BatchInfo(
            id=closing.id,
            total=awaited.total,
            pending=awaited.pending,
            failed=awaited.unmet,
            is_open=awaited.held,
            state=closing.state,
        )

    async def opened(self, limit: int = 100) -> list[BatchInfo]:
        """Those to which their makers may still add jobs, the oldest first; a crash leaves one so."""
        found: list[BatchInfo] = []
        after: str | None = None
        while len(found) < limit and (page := await self._client().session.flow.held(after, PAGE)):
            for batch_id in page[: limit - len(found)]:
                with suppress(JobGone):
                    found.append(await self.get(batch_id))
            after = page[-1]
        return found

    async def jobs(self, batch_id: JobId) -> AsyncIterator[tuple[str, State | None]]:
        """The ids of its jobs, and how each ended; None for those that have not."""
        flow, known, after = self._client().session.flow, check_id(batch_id), None
        while page := await flow.before(known, after, PAGE):
            for link in page:
                yield link
            after = page[-1][0]

    async def cancel(self, batch_id: JobId) -> int:
        """Cancels the job that would come at the end, and then all that are not finished; how many of these.

        Those that are running are asked to stop.
        """
        client = self._client()
        await client.cancel((await self._closing(batch_id)).id)
        pending = [job_id async for job_id, state in self.jobs(batch_id) if state is None]
        for start in range(0, len(pending), _AT_ONCE):
            part = pending[start : start + _AT_ONCE]
            await asyncio.gather(*(_cancelled(client, job_id) for job_id in part))
        return len(pending)

    async def close(self, batch_id: JobId) -> None:
        """Says that its maker puts no more jobs into it. One that was left open by a crash is closed so."""
        known = check_id(batch_id)
        if not await self._client().session.flow.release(known):
            raise JobGone(f"no batch {known} is stored")

    async def _closing(self, batch_id: JobId) -> JobRecord:
        """The job at the end of a batch."""
        known = check_id(batch_id)
        record = await self._client().session.jobs.get(known)
        if record is None or record.flow is None or not record.flow.after_any:
            raise JobGone(f"no batch {known} is stored")
        return record

    async def store(self, jobs: list[NewJob]) -> list[Job[Any]]:
        """Stores jobs, a batch per commit; the first one goes before all others."""
        client = self._client()
        made: list[Job[Any]] = []
        size = client.settings.batch
        for start in range(0, len(jobs), size):
            part = jobs[start : start + size]
            answers = await client.add(part)
            for job, added in zip(part, answers, strict=True):
                if added.conflict is not None:
                    refuse(job, added)
                made.append(client.job(added.record))
        return made


async def _cancelled(client: Client, job_id: str) -> None:
    try:
        await client.cancel(job_id)
    except JobGone:
        return


def _closing_job(call: Call, batch: str) -> NewJob:
    job = check_call(call).to_new_job(batch)
    if job.id != batch:
        raise InvalidJob("id", "the job at the end of a batch has the id of the batch")
    if job.key is not None:
        raise InvalidJob("key", "the job at the end of a batch has no key: there is one for each batch")
    if job.flow is not None and job.flow.after:
        raise InvalidJob("after", "the job at the end of a batch comes after its jobs, and no others")
    return replace(job, flow=replace(job.flow or NewFlow(), held=True, after_any=True))
