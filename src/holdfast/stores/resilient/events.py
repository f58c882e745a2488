"""Events, with every operation sent again after a transient fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.model.events import EventPage, NewEvent
from holdfast.model.records import Added, NewJob, as_repeated
from holdfast.store import EventStore
from holdfast.stores.resilient.guard import Guard


class ResilientEvents:
    """The events of one session. One that comes again is known by its id."""

    def __init__(self, events: EventStore, guard: Guard) -> None:
        self._events = events
        self._call = guard.call

    async def append(self, events: Sequence[NewEvent], jobs: Sequence[NewJob] = ()) -> list[Added]:
        if not events and not jobs:
            return []
        return await self._call(
            lambda: self._events.append(events, jobs),
            resend=lambda: self._events.append(events, as_repeated(jobs)),
        )

    async def read(
        self, after: int, limit: int, *, topic: str | None = None, aggregate: str | None = None
    ) -> EventPage:
        return await self._call(lambda: self._events.read(after, limit, topic=topic, aggregate=aggregate))

    async def last(self) -> int:
        return await self._call(self._events.last)

    async def prune(self, older_than: int, passed: Mapping[str, int], limit: int) -> int:
        return await self._call(lambda: self._events.prune(older_than, passed, limit))
