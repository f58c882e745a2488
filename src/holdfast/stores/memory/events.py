"""Events of the memory store."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from threading import Lock
from typing import TYPE_CHECKING

from holdfast.model.events import EventPage, EventRecord, NewEvent
from holdfast.model.records import Added, NewJob

if TYPE_CHECKING:
    from holdfast.stores.memory.shelf import Shelf

_position = attrgetter("position")


class EventShelf:
    """All events of one namespace. Every method is called with the store's lock held.

    `_versions` has the last version of each aggregate of which an event is kept, `_floors` the highest one of
    each topic that was forgotten.
    """

    def __init__(self) -> None:
        self.log: list[EventRecord] = []
        self.last = 0
        self._ids: set[str] = set()
        self._versions: dict[tuple[str, str], int] = {}
        self._floors: dict[str, int] = {}

    def append(self, events: Iterable[NewEvent], now: int) -> None:
        for event in events:
            if event.id in self._ids:
                continue
            self._ids.add(event.id)
            self.last += 1
            self.log.append(
                EventRecord(
                    id=event.id,
                    topic=event.topic,
                    type=event.type,
                    data=event.data,
                    position=self.last,
                    at=now,
                    aggregate=event.aggregate,
                    version=self._next_version(event),
                    headers=event.headers,
                )
            )

    def _next_version(self, event: NewEvent) -> int | None:
        if event.aggregate is None:
            return None
        line = event.topic, event.aggregate
        before = self._versions.get(line)
        version = (self._floors.get(event.topic, 0) if before is None else before) + 1
        self._versions[line] = version
        return version

    def after(self, position: int) -> Iterator[EventRecord]:
        return islice(self.log, bisect_right(self.log, position, key=_position), None)

    def remove(self, gone: Sequence[EventRecord]) -> None:
        positions = {event.position for event in gone}
        self.log = [event for event in self.log if event.position not in positions]
        for event in gone:
            self._ids.discard(event.id)
            if event.aggregate is None or event.version is None:
                continue
            if self._versions.get((event.topic, event.aggregate)) == event.version:
                del self._versions[event.topic, event.aggregate]
                self._floors[event.topic] = max(self._floors.get(event.topic, 0), event.version)


class MemoryEvents:
    """Events of one namespace."""

    def __init__(self, shelf: Shelf, lock: Lock, clock: Callable[[], int]) -> None:
        self._shelf = shelf
        self._events = shelf.events
        self._lock = lock
        self._clock = clock

    async def append(self, events: Sequence[NewEvent], jobs: Sequence[NewJob] = ()) -> list[Added]:
        with self._lock:
            now = self._clock()
            added = self._shelf.add(jobs, now)
            self._events.append(events, now)
        self._shelf.listeners.wake()
        return added

    async def read(
        self, after: int, limit: int, *, topic: str | None = None, aggregate: str | None = None
    ) -> EventPage:
        with self._lock:
            found = (
                event
                for event in self._events.after(after)
                if topic in (None, event.topic) and aggregate in (None, event.aggregate)
            )
            records = list(islice(found, limit))
            is_all = len(records) < limit
            return EventPage(
                records=records, upto=max(after, self._events.last) if is_all else records[-1].position
            )

    async def last(self) -> int:
        with self._lock:
            return self._events.last

    async def prune(self, older_than: int, passed: Mapping[str, int], limit: int) -> int:
        with self._lock:
            before = self._clock() - older_than
            old = (
                event
                for event in self._events.log
                if event.at < before and event.position <= passed.get(event.topic, event.position)
            )
            gone = list(islice(old, limit))
            self._events.remove(gone)
            return len(gone)
