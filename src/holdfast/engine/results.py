"""Waiting for results: however many wait in a process, they share one query."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

from holdfast.engine.partition import sorted_ids
from holdfast.model.errors import JobCancelled, JobFailed, JobGone, NotOpen, ResultNotKept, StoreError
from holdfast.model.lifecycle import FINISHED, State
from holdfast.model.names import known_id
from holdfast.model.payload import decode, decoder
from holdfast.model.records import JobRecord
from holdfast.model.task import Registry
from holdfast.model.timing import Seconds, seconds
from holdfast.store import Session

SHORTEST, LONGEST, GROWTH = 0.02, 1.0, 1.5
_MOST = 500
_ANYTHING = decoder(Any)

Answer = asyncio.Future["JobRecord | None"]


class Results:
    """Knows who waits for which job.

    A job that a worker of this process finishes is told by `settled` and answered at once. All others are
    asked for together, at intervals that grow from 20 ms to 1 s and are cut short by a wake-up.
    """

    def __init__(self, session: Session, registry: Registry) -> None:
        self._session = session
        self._jobs = session.jobs
        self._registry = registry
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[str, set[Answer]] = {}
        self._has_new = False
        self._stir = asyncio.Event()
        self._poller: asyncio.Task[None] | None = None
        self._wakeups = session.wakeups
        self._thread = threading.get_ident()

    async def wait(self, job_id: str, timeout: Seconds | None = None) -> Any:
        """The result of the job; raises as `Job.result` says."""
        known = known_id(job_id)
        if known is None:
            raise JobGone(f"no job {ascii(job_id)[:60]} is stored")
        return self._value(known, await self._finished(known, None if timeout is None else seconds(timeout)))

    def settled(self, record: JobRecord) -> None:
        """Tells that a worker of this process finished a job. May be called from any thread."""
        if record.id not in self._waiting:
            return
        if threading.get_ident() == self._thread:
            self._resolve(record.id, record)
        else:
            self._loop.call_soon_threadsafe(self._resolve, record.id, record)

    async def close(self) -> None:
        """Ends the asking; whoever still waits gets NotOpen."""
        if self._poller is not None:
            self._poller.cancel()
            await asyncio.wait([self._poller])
        for answer in self._everybody():
            answer.set_exception(NotOpen("the application was closed while a result was waited for"))
        self._waiting.clear()

    async def _finished(self, job_id: str, timeout: float | None) -> JobRecord | None:
        if timeout is not None and timeout <= 0:
            (record,) = await self._jobs.states([job_id])
            if record is not None and record.state not in FINISHED:
                raise TimeoutError(f"job {job_id} is not finished; it is {record.state}")
            return record
        answer: Answer = self._loop.create_future()
        self._waiting.setdefault(job_id, set()).add(answer)
        self._has_new = True
        self._stir.set()
        if self._poller is None:
            self._poller = self._loop.create_task(self._poll())
        try:
            async with asyncio.timeout(timeout):
                return await answer
        except TimeoutError:
            raise TimeoutError(f"job {job_id} did not finish within {timeout:g} s") from None
        finally:
            self._leave(job_id, answer)

    def _leave(self, job_id: str, answer: Answer) -> None:
        answers = self._waiting.get(job_id)
        if answers is not None:
            answers.discard(answer)
            if not answers:
                del self._waiting[job_id]

    def _resolve(self, job_id: str, record: JobRecord | None) -> None:
        for answer in self._waiting.pop(job_id, ()):
            if not answer.done():
                answer.set_result(record)

    async def _poll(self) -> None:
        stop_listening = None if self._wakeups is None else self._wakeups.listen(self._wake)
        try:
            pause = SHORTEST
            while self._waiting:
                found = await self._ask()
                pause = SHORTEST if found or self._has_new else min(LONGEST, pause * GROWTH)
                if self._waiting and not self._has_new:
                    await self._rest(pause)
        except Exception as error:  # noqa: BLE001  handed to those who wait
            for answer in self._everybody():
                answer.set_exception(error)
        finally:
            if stop_listening is not None:
                stop_listening()
            self._poller = None

    async def _ask(self) -> bool:
        """Asks for all who wait; True if some are answered. A store that is away is asked again later."""
        self._has_new = False
        parts = sorted_ids(self._session, list(self._waiting), _MOST)
        return any(await asyncio.gather(*(self._ask_for(part) for part in parts)))

    async def _ask_for(self, ids: Sequence[str]) -> bool:
        try:
            records = await self._jobs.states(ids)
        except StoreError:
            return False
        return self._sort_out(ids, records)

    def _sort_out(self, ids: Sequence[str], records: Sequence[JobRecord | None]) -> bool:
        found = False
        for job_id, record in zip(ids, records, strict=True):
            if record is None or record.state in FINISHED:
                self._resolve(job_id, record)
                found = True
        return found

    async def _rest(self, pause: float) -> None:
        """Until the pause is over, or cut short by a new waiter or by a wake-up, which may be one of many."""
        self._stir.clear()
        try:
            async with asyncio.timeout(pause):
                await self._stir.wait()
        except TimeoutError:
            return
        if not self._has_new:
            await asyncio.sleep(SHORTEST)

    def _wake(self) -> None:
        if not self._stir.is_set() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stir.set)

    def _everybody(self) -> list[Answer]:
        return [answer for answers in self._waiting.values() for answer in answers if not answer.done()]

    def _value(self, job_id: str, record: JobRecord | None) -> Any:
        if record is None:
            raise JobGone(f"job {job_id} is not stored: it was never there, was deleted, or was pruned")
        if record.state is State.CANCELLED:
            raise JobCancelled(f"job {job_id} was cancelled")
        if record.state is not State.SUCCESS:
            raise JobFailed(job_id, record.reason, record.error)
        definition = self._registry.find(record.task)
        if record.result is None:
            why = (
                "its task does not keep results"
                if definition is None or not definition.keep_result
                else "it completed in a transaction that was given none; use tx.complete(value)"
            )
            raise ResultNotKept(f"job {job_id} succeeded, but has no result: {why}")
        if definition is None:
            return decode(_ANYTHING, record.result, "result")
        return definition.decode_result(record.result)
