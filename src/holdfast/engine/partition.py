"""Partitions as the engine and applications see them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import TypeVar

import msgspec

from holdfast.engine.leader import LeaderInfo, who_leads
from holdfast.model.errors import StoreError
from holdfast.model.events import EventRecord
from holdfast.model.lifecycle import FINISHED, State
from holdfast.model.names import check_name, known_id
from holdfast.model.partition import whole_position
from holdfast.model.records import NewJob
from holdfast.store import Session
from holdfast.store.partitions import PartitionedSession

T = TypeVar("T")

PATIENCE = 5.0

NOBODY: Mapping[str, str] = MappingProxyType({})


class PartitionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A partition as it stood when it was asked.

    `live` counts jobs that wait or run, `dead` those of the dead-letter queue, `finished` all others. `error`
    says why it did not answer; then nothing else of it is known.
    """

    name: str
    home: bool
    draining: bool
    live: int = 0
    dead: int = 0
    finished: int = 0
    workers: int = 0
    leader: LeaderInfo | None = None
    error: str | None = None


async def each_part(session: Session, ask: Callable[[Session], Awaitable[T]]) -> list[tuple[str | None, T]]:
    """The answer of each partition, by name; that of the session, by None, if there are none."""
    if isinstance(session, PartitionedSession):
        return [*(await session.each(ask)).items()]
    return [(None, await ask(session))]


def placing(session: Session) -> Callable[[list[NewJob]], list[NewJob]]:
    """What gives jobs whose ids were just drawn ids that tell their partition, if there are several."""
    return session.placed if isinstance(session, PartitionedSession) else _as_they_are


def _as_they_are(jobs: list[NewJob]) -> list[NewJob]:
    return jobs


def seen_from_outside(session: Session, partition: str | None, record: EventRecord) -> EventRecord:
    """An event of a partition, with its position as it is seen over all of them."""
    if not isinstance(session, PartitionedSession) or partition is None:
        return record
    place = [*session.parts].index(partition)
    return msgspec.structs.replace(record, position=whole_position(record.position, place))


def sorted_ids(session: Session, job_ids: list[str], most: int) -> Iterator[list[str]]:
    """The ids in parts that can be asked for each by itself: at most so many, and of one partition."""
    parts: dict[str | None, list[str]] = {}
    if isinstance(session, PartitionedSession):
        for job_id in job_ids:
            parts.setdefault(session.layout.of_id(job_id), []).append(job_id)
    else:
        parts[None] = job_ids
    for part in parts.values():
        for start in range(0, len(part), most):
            yield part[start : start + most]


class Partitions:
    """The partitions of an application's store; none if that is one store only."""

    def __init__(self, session: Callable[[], Session]) -> None:
        self._session = session

    @property
    def names(self) -> tuple[str, ...]:
        session = self._session()
        return tuple(session.parts) if isinstance(session, PartitionedSession) else ()

    def of_queue(self, queue: str) -> str | None:
        """Where new jobs of a queue are placed."""
        session = self._session()
        name = check_name(queue, "queue")
        return session.layout.of_queue(name) if isinstance(session, PartitionedSession) else None

    def of_topic(self, topic: str) -> str | None:
        """Where events of a topic are placed that are emitted by themselves."""
        session = self._session()
        name = check_name(topic, "topic")
        return session.layout.of_topic(name) if isinstance(session, PartitionedSession) else None

    async def of_job(self, job_id: object) -> str | None:
        """Where a job is; None if it is not stored, or if there are no partitions."""
        session, known = self._session(), known_id(job_id)
        if known is None or not isinstance(session, PartitionedSession):
            return None
        return (await session.locate([known])).get(known)

    def tolerating(self) -> AbstractContextManager[Mapping[str, str]]:
        """Has find, counts and lists leave out partitions that do not answer, inside the block.

        Gives which those were, and why. Outside of it, and for all that writes, a missing partition is a
        StoreError.
        """
        session = self._session()
        return session.tolerating() if isinstance(session, PartitionedSession) else nullcontext(NOBODY)

    async def list(self) -> list[PartitionInfo]:
        """All of them, each asked by itself."""
        session = self._session()
        if not isinstance(session, PartitionedSession):
            return []
        asked = (self._info(name, part) for name, part in session.parts.items())
        return list(await asyncio.gather(*asked))

    async def leaders(self) -> dict[str, LeaderInfo | None]:
        """Who leads in each partition that answers."""
        return {each.name: each.leader for each in await self.list() if each.error is None}

    async def _info(self, name: str, part: Session) -> PartitionInfo:
        session = self._session()
        assert isinstance(session, PartitionedSession)
        layout = session.layout
        info = PartitionInfo(name=name, home=name == layout.home, draining=name not in layout.open)
        try:
            async with asyncio.timeout(PATIENCE):
                counts = await part.jobs.count()
                workers = await part.fleet.workers()
                leader = await who_leads(part.locks)
        except StoreError as error:
            return msgspec.structs.replace(info, error=str(error))
        except TimeoutError:
            return msgspec.structs.replace(info, error=f"no answer within {PATIENCE:g} s")
        return msgspec.structs.replace(
            info,
            live=sum(each.count for each in counts if each.state not in FINISHED),
            dead=sum(each.count for each in counts if each.state is State.DLQ),
            finished=sum(each.count for each in counts if each.state in FINISHED - {State.DLQ}),
            workers=sum(each.live for each in workers),
            leader=leader,
        )
