"""Events."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from holdfast.model.events import EventPage, EventRecord, NewEvent
from holdfast.model.records import Added, NewJob
from holdfast.stores.bell import Bell
from holdfast.stores.postgres import adding, appending
from holdfast.stores.postgres.database import Database
from holdfast.stores.postgres.queries import Queries

ROUNDS: Final = 10
"""So often a read gives positions to a thousand events before it stops where it is."""

LARGEST: Final = 4_000_000
"""A page ends behind so many bytes of data."""


class PostgresEvents:
    """Events of one namespace. Whoever reads gives positions to what was committed by then."""

    def __init__(self, database: Database, queries: Queries, ns: int, bell: Bell) -> None:
        self._database = database
        self._queries = queries
        self._ns = ns
        self._bell = bell

    async def append(self, events: Sequence[NewEvent], jobs: Sequence[NewJob] = ()) -> list[Added]:
        if not events and not jobs:
            return []
        wake = self._bell.strike()
        told = appending.arrays(events)
        added: list[Added] = []
        if jobs:
            stood = await self._database.value(
                self._queries.append_jobs, self._ns, *adding.arrays(jobs), wake, *told
            )
            added = adding.answers(jobs, stood)
        else:
            await self._database.value(self._queries.append, self._ns, *told, wake)
        self._bell.struck(wake)
        return added

    async def read(
        self, after: int, limit: int, *, topic: str | None = None, aggregate: str | None = None
    ) -> EventPage:
        records: list[EventRecord] = []
        left = LARGEST
        for _ in range(ROUNDS):
            *rows, end = await self._database.rows(
                self._queries.read_events, self._ns, after, limit - len(records), topic, aggregate, left
            )
            records += map(_record, rows)
            left -= sum(len(row["data"]) for row in rows)
            if len(records) == limit or left <= 0:
                return EventPage(records=records, upto=records[-1].position)
            after = max(after, end["position"])
            if not end["version"] or await self._placed() is None:
                break
        return EventPage(records=records, upto=after)

    async def last(self) -> int:
        await self._place()
        return await self._database.value(self._queries.last_event, self._ns, writes=False) or 0

    async def prune(self, older_than: int, passed: Mapping[str, int], limit: int) -> int:
        await self._place()
        removed: int = await self._database.value(
            self._queries.prune_events, self._ns, older_than, list(passed), list(passed.values()), limit
        )
        return removed

    async def _place(self) -> None:
        """Gives positions to all that is committed by now."""
        while await self._placed():
            pass

    async def _placed(self) -> bool | None:
        """Gives positions to some of it: whether there may be more, None if another is at it."""
        more: bool | None = await self._database.value(self._queries.sequence, self._ns, writes=False)
        return more


def _record(row: Any) -> EventRecord:
    position, at, version, event_id, topic, kind, aggregate, data, headers = row
    return EventRecord(
        id=event_id,
        topic=topic,
        type=kind,
        data=data,
        position=position,
        at=at,
        aggregate=aggregate,
        version=version,
        headers=headers,
    )
