"""What happened, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from holdfast.model.events import EventPage, NewEvent
from holdfast.model.records import Added, NewJob


class EventStore(Protocol):
    """An append-only log of events.

    Events come by `append`, with a move, with a schedule that is written, or in somebody's transaction, and
    stand or fall with that. One whose id is stored already is left out. Each has a position: from 1 on, with
    no gap, and never below one that anybody has read: not even of a transaction that began earlier and
    commits later. It has a version too, if it has an aggregate: one more than the last of that topic and
    aggregate. An aggregate of which no event is kept begins above the last versions of all
    aggregates of its topic of which none is kept either. Listeners are woken by what is appended.
    """

    async def append(self, events: Sequence[NewEvent], jobs: Sequence[NewJob] = ()) -> list[Added]:
        """Stores events, in this order, and jobs as by `add`, in one write; the answers for the jobs."""
        ...

    async def read(
        self, after: int, limit: int, *, topic: str | None = None, aggregate: str | None = None
    ) -> EventPage:
        """Up to `limit` events behind a position, in order: all, those of a topic, or of its aggregate.

        Whatever was committed before the call is among them, if they are not too many. With `limit` events
        `upto` is the last one's position. With fewer it is the last position that was given, but at least
        `after`; a store that would have to look through too many may stop earlier, and says so by `upto`.
        """
        ...

    async def last(self) -> int:
        """The last position of all that was committed before the call, and perhaps removed since; else 0."""
        ...

    async def prune(self, older_than: int, passed: Mapping[str, int], limit: int) -> int:
        """Removes up to `limit` events that are older than that, by position; how many.

        Those of a topic in `passed` only up to that position.
        """
        ...
