"""Events and their groups, as applications look at them and steer them."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.engine.bookmark import readable
from holdfast.engine.ids import new_id
from holdfast.engine.partition import each_part, seen_from_outside
from holdfast.model.errors import GroupGone, InvalidEvent, InvalidJob, VersionConflict
from holdfast.model.events import Event, EventRecord, check_aggregate
from holdfast.model.names import check_name
from holdfast.model.progress import (
    PREFIX,
    Progress,
    Subscriber,
    Waiting,
    aggregate_of,
    as_write,
    record_name,
    topic_of,
)
from holdfast.model.records import Verdict
from holdfast.model.scheduling import ScheduleRecord
from holdfast.model.sealed import unreadable
from holdfast.model.timing import moment
from holdfast.store import EventStore, Session

MOST_LISTED = 1_000
_PAGE = 500
_TRIES = 20


class WaitingInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An event that failed and holds up what follows of its aggregate; `retry_at` is None if it is parked."""

    event: str
    position: int
    aggregate: str | None
    failures: int
    retry_at: datetime | None
    reason: str
    since: datetime
    skip: bool


class GroupInfo(msgspec.Struct, frozen=True, kw_only=True):
    """How far a group has come with a topic: `offset` is the last position that it has passed.

    `last` is the last position of all topics. `behind` is how many events it has before it: at most, for
    those of other topics in between are counted too. `waiting` are those that failed, in their order. In
    each `partition` it comes along by itself, and positions count there.
    """

    group: str
    topic: str
    offset: int
    last: int
    behind: int
    waiting: list[WaitingInfo]
    partition: str | None = None


class Events:
    """The events of a namespace, and the groups that consume them."""

    def __init__(self, session: Callable[[], Session]) -> None:
        self._session = session

    async def groups(self) -> list[GroupInfo]:
        """All groups that ever consumed, by name and topic."""
        parts = await each_part(self._session(), _groups)
        found = [replace(info, partition=name) for name, infos in parts for info in infos]
        return sorted(found, key=lambda info: (info.group, info.topic))

    async def replay(
        self, group: str, topic: str | None = None, *, event: str | None = None, aggregate: str | None = None
    ) -> int:
        """Has events that failed tried again at once: all of the group, or what is given; how many."""
        return await self._resume(group, topic, event, aggregate, skip=False)

    async def skip(
        self, group: str, topic: str | None = None, *, event: str | None = None, aggregate: str | None = None
    ) -> int:
        """Leaves out events that failed, so that what follows of their aggregates goes on; how many."""
        return await self._resume(group, topic, event, aggregate, skip=True)

    async def forget(self, group: str, topic: str) -> bool:
        """Removes a group that consumes no more, so that events are no longer kept for it."""
        name = record_name(check_name(group, "group"), check_name(topic, "topic"))
        return await self._session().schedules.remove(name)

    async def newest(
        self, topic: str | None = None, *, aggregate: str | None = None, limit: int = 50
    ) -> list[Event[Any]]:
        """The last events, in their order: of all, of a topic, or of one aggregate of it."""
        _check(topic, aggregate, limit)
        session = self._session()

        async def ask(part: Session) -> Sequence[EventRecord]:
            return await _newest(part.events, topic, aggregate, limit)

        parts = await each_part(session, ask)
        if len(parts) == 1 and parts[0][0] is None:
            return [_shown(record) for record in parts[0][1]]
        found = [seen_from_outside(session, name, each) for name, records in parts for each in records]
        return [_shown(record) for record in sorted(found, key=lambda each: each.at)[-limit:]]

    async def _resume(
        self, group: str, topic: str | None, event: str | None, aggregate: str | None, *, skip: bool
    ) -> int:
        def is_meant(lane: str, waiting: Waiting) -> bool:
            return event in (None, waiting.event) and aggregate in (None, aggregate_of(lane))

        async def resume(part: Session) -> list[int]:
            known = [
                subscriber
                for _, subscriber, _ in await subscribers(part)
                if subscriber.group == group and topic in (None, subscriber.topic)
            ]
            return [await self._resume_of(part, subscriber, is_meant, skip=skip) for subscriber in known]

        resumed = [count for _, counts in await each_part(self._session(), resume) for count in counts]
        if not resumed:
            raise GroupGone(f"no group {group!a} has consumed that; app.events.groups() has all of them")
        return sum(resumed)

    async def _resume_of(
        self,
        session: Session,
        subscriber: Subscriber,
        is_meant: Callable[[str, Waiting], bool],
        *,
        skip: bool,
    ) -> int:
        schedules = session.schedules
        for _ in range(_TRIES):
            told = await schedules.get([record_name(subscriber.group, subscriber.topic)])
            found = readable(told.records)
            if not found:
                return 0
            record, _, progress = found[0]
            lanes = [lane for lane, waiting in progress.waiting.items() if is_meant(lane, waiting)]
            for lane in lanes:
                progress = progress.resumed(lane, told.now, skip=skip)
            if not lanes:
                return 0
            write = as_write(subscriber, progress, record, new_id())
            if await schedules.write([write]) == [Verdict.ACCEPTED]:
                return len(lanes)
        raise VersionConflict(f"the group {subscriber.group} was changed by others {_TRIES} times in a row")

    async def list(
        self,
        topic: str | None = None,
        *,
        aggregate: str | None = None,
        after: int = 0,
        limit: int = 50,
    ) -> list[Event[Any]]:
        """Events behind a position, in their order: all, those of a topic, or of one aggregate of it."""
        _check(topic, aggregate, limit)
        found: list[EventRecord] = []
        last = await self._session().events.last()
        async for page in _pages(self._session().events, after, last, limit, topic, aggregate):
            found += page
            if len(found) >= limit:
                break
        return [_shown(record) for record in found[:limit]]


async def _newest(
    events: EventStore, topic: str | None, aggregate: str | None, limit: int
) -> Sequence[EventRecord]:
    last = await events.last()
    window = limit
    while True:
        after = max(0, last - window)
        found: deque[EventRecord] = deque(maxlen=limit)
        async for page in _pages(events, after, last, MOST_LISTED, topic, aggregate):
            found.extend(page)
        if len(found) == limit or after == 0:
            return found
        window *= 10


async def _pages(
    events: EventStore, after: int, last: int, size: int, topic: str | None, aggregate: str | None
) -> AsyncGenerator[list[EventRecord]]:
    while after < last:
        page = await events.read(after, size, topic=topic, aggregate=aggregate)
        yield page.records
        after = page.upto


def _check(topic: str | None, aggregate: str | None, limit: int) -> None:
    if not 1 <= limit <= MOST_LISTED:
        raise InvalidEvent("limit", f"{limit!r} is not between 1 and {MOST_LISTED}")
    if aggregate is not None and topic is None:
        raise InvalidEvent("topic", "an aggregate belongs to a topic; give that too")
    try:
        if topic is not None:
            check_name(topic, "topic")
        if aggregate is not None:
            check_aggregate(aggregate)
    except InvalidJob as error:
        raise InvalidEvent(error.field, error.problem) from None


async def _groups(session: Session) -> list[GroupInfo]:
    found = await subscribers(session)
    last = await session.events.last()
    return [
        _info(subscriber, progress, last, await _behind(session, subscriber, progress, last))
        for _, subscriber, progress in found
    ]


async def _behind(session: Session, subscriber: Subscriber, progress: Progress, last: int) -> int:
    page = await session.events.read(progress.offset, 1, topic=subscriber.topic)
    return max(1, last + 1 - page.records[0].position) if page.records else 0


async def subscribers(session: Session) -> list[tuple[ScheduleRecord, Subscriber, Progress]]:
    """All that ever consumed, by name, and how far they have come."""
    return readable(await _records(session))


async def unneeded(session: Session) -> dict[str, int]:
    """For each topic that is consumed, the last position that nobody needs any more."""
    passed: dict[str, int] = {}
    for record in await _records(session):
        found = readable([record])
        # Of one that another version wrote all may be needed.
        upto = found[0][2].unneeded if found else 0
        topic = topic_of(record.name)
        passed[topic] = min(upto, passed.get(topic, upto))
    return passed


async def _records(session: Session) -> list[ScheduleRecord]:
    found: list[ScheduleRecord] = []
    after = PREFIX
    while True:
        page = (await session.schedules.list(after, _PAGE)).records
        found += page
        if len(page) < _PAGE:
            return found
        after = page[-1].name


def _info(subscriber: Subscriber, progress: Progress, last: int, behind: int) -> GroupInfo:
    waiting = sorted(progress.waiting.items(), key=lambda each: each[1].position)
    return GroupInfo(
        group=subscriber.group,
        topic=subscriber.topic,
        offset=progress.offset,
        last=last,
        behind=behind,
        waiting=[
            WaitingInfo(
                event=each.event,
                position=each.position,
                aggregate=aggregate_of(lane),
                failures=each.failures,
                retry_at=None if each.retry_at is None else moment(each.retry_at),
                reason=each.reason,
                since=moment(each.since),
                skip=each.skip,
            )
            for lane, each in waiting
        ],
    )


def _shown(record: EventRecord) -> Event[Any]:
    try:
        return Event.from_record(record, msgspec.json.decode(record.data))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        why = unreadable(record.data)
        return Event.from_record(record, record.data if why is None else why)
