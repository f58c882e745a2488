"""Jobs from Kafka: one for each message, however often it is delivered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from holdfast.app import Holdfast
from holdfast.engine.outage import pauses
from holdfast.kafka.calls import CallThread
from holdfast.kafka.config import ClientConfig, log
from holdfast.kafka.message import KafkaMessage, event_of, place_of, scoped_id
from holdfast.kafka.reader import DEFAULTS, OWNED, Reader
from holdfast.model.errors import ConfigurationError, IdConflict, OutcomeUnknown, StoreUnavailable
from holdfast.model.events import EventRecord
from holdfast.model.headers import carried, carrying
from holdfast.model.records import Added, NewJob
from holdfast.model.task import Call

_CLOSE_LIMIT = 10.0
_LARGEST_BATCH = 10_000


class KafkaSource:
    """Reads topics as a member of a consumer group, and stores a job for each message.

    `to_job` gives the call, or the job, of an event as `event_of` reads it; None passes it over. `enqueue`
    is the application that gets the jobs, or stores them as a store's `add` does: one whose id is stored
    already, live or finished, is not stored again. The job's id is the event's, whatever `to_job` says; so
    two sources with different tasks in one namespace need a `scope` each, which gives them ids of their own.
    Offsets are committed when the jobs are stored: a message that comes again, after a crash or a rebalance,
    finds its job.

    It holds as long as the finished job is kept: a repeat that comes later than retention runs again.
    """

    def __init__(
        self,
        config: str | Mapping[str, Any],
        topics: Sequence[str],
        group: str,
        *,
        enqueue: Holdfast | Callable[[Sequence[NewJob]], Awaitable[object]],
        to_job: Callable[[EventRecord], Call | NewJob | None],
        scope: str | None = None,
        batch: int = 500,
    ) -> None:
        if isinstance(topics, str):
            topics = [topics]
        if not topics:
            raise ConfigurationError("name at least one topic", setting="topics")
        if not group:
            raise ConfigurationError("name the consumer group", setting="group")
        if not 1 <= batch <= _LARGEST_BATCH:
            raise ConfigurationError(f"{batch!r} is not between 1 and {_LARGEST_BATCH}", setting="batch")
        self._config = ClientConfig(config, owned={**OWNED, "group.id": group}, defaults=DEFAULTS)
        self._topics = list(topics)
        self._group = group
        self._enqueue = _adding_to(enqueue) if isinstance(enqueue, Holdfast) else enqueue
        self._to_job = to_job
        self._scope = scope
        self._batch = batch

    def __repr__(self) -> str:
        return f"KafkaSource({self._config.servers!r}, {self._topics!r}, {self._group!r})"

    async def run(self) -> None:
        """Reads until it is cancelled. An outage of Kafka or of the store is waited out.

        Whatever else `to_job` or `enqueue` raises ends it, with the message uncommitted.
        """
        thread = CallThread("holdfast-kafka-source")
        reader = Reader(self._config, self._topics, self._batch)
        try:
            await thread.call(reader.open)
            while True:
                messages = await thread.call(reader.read)
                if jobs := [job for job in map(self._job, messages) if job is not None]:
                    await self._store(jobs)
                await thread.call(reader.done, messages)
        finally:
            reader.stop()
            closing = asyncio.ensure_future(thread.call(reader.close))
            closing.add_done_callback(lambda _: thread.stop())
            await asyncio.wait([closing], timeout=_CLOSE_LIMIT)

    def _job(self, message: KafkaMessage) -> NewJob | None:
        try:
            event = event_of(message)
            job = self._to_job(event)
        except Exception as error:
            error.add_note(f"while reading the Kafka message {place_of(message)}")
            raise
        if job is None:
            return None
        if isinstance(job, Call):
            job = job.to_new_job(event.id)
        own_id = event.id if self._scope is None else scoped_id(event.id, self._scope)
        return carrying(msgspec.structs.replace(job, id=own_id, fresh=False), carried(event.headers))

    async def _store(self, jobs: Sequence[NewJob]) -> None:
        waits = pauses()
        while True:
            try:
                answers = await self._enqueue(jobs)
            except (StoreUnavailable, OutcomeUnknown) as error:
                log.warning(
                    "jobs from kafka not stored yet",
                    extra={"fields": {"group": self._group, "jobs": len(jobs), "error": str(error)}},
                )
                await asyncio.sleep(next(waits))
            else:
                _check(answers)
                return


def _check(answers: object) -> None:
    """A job that was not stored because another has its id must not count as stored."""
    for answer in cast("list[object]", answers) if isinstance(answers, list) else ():
        if isinstance(answer, Added) and answer.conflict == "id":
            raise IdConflict(
                f"the id {answer.record.id} of a Kafka message belongs to a job with another task or other "
                "arguments; if several sources store jobs in this namespace, give each a scope of its own"
            )


def _adding_to(app: Holdfast) -> Callable[[Sequence[NewJob]], Awaitable[object]]:
    async def add(jobs: Sequence[NewJob]) -> object:
        # Not before it is needed: the application is opened later than this is made.
        return await app.client.session.jobs.add(jobs)

    return add
