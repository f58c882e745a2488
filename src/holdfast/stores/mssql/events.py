"""Events."""

from collections.abc import Mapping, Sequence
from typing import Final

from holdfast.model.events import EventPage, EventRecord, NewEvent
from holdfast.model.records import Added, NewJob
from holdfast.stores.bell import Bell
from holdfast.stores.mssql import adding
from holdfast.stores.mssql.appending import as_dicts, stored_aggregate, told_aggregate
from holdfast.stores.mssql.database import Database
from holdfast.stores.mssql.driver import Row
from holdfast.stores.mssql.queries import rendered
from holdfast.stores.mssql.rows import Bytes, as_json

LARGEST: Final = 4_000_000
"""A page ends behind so many bytes of data."""

_APPEND = "EXEC holdfast.append_jobs_v1 ?, ?, ?, ?, ?"
_READ = "EXEC holdfast.read_events_v1 ?, ?, ?, ?, ?, ?"
_LAST = "EXEC holdfast.last_event_v1 ?"
_PRUNE = "EXEC holdfast.prune_events_v1 ?, ?, ?, ?"


class MssqlEvents:
    """Events of one namespace. Whoever reads gives positions to what was committed by then."""

    def __init__(self, database: Database, ns: int, bell: Bell) -> None:
        self._database = database
        self._ns = ns
        self._bell = bell

    async def append(self, events: Sequence[NewEvent], jobs: Sequence[NewJob] = ()) -> list[Added]:
        if not events and not jobs:
            return []
        held, held_of_jobs = Bytes(), Bytes()
        told = as_json(as_dicts(events, held))
        told_of_jobs = as_json(adding.as_dicts(jobs, held_of_jobs)) if jobs else None
        added = await self._database.execute(
            self._sql(_APPEND),
            self._ns,
            told,
            held.whole(),
            told_of_jobs,
            held_of_jobs.whole(),
            writes=True,
        )
        self._bell.struck(None)
        return adding.answers(jobs, added) if jobs else []

    async def read(
        self, after: int, limit: int, *, topic: str | None = None, aggregate: str | None = None
    ) -> EventPage:
        [[last]], rows = await self._database.execute(
            self._sql(_READ),
            self._ns,
            after,
            limit,
            topic,
            stored_aggregate(aggregate),
            LARGEST,
            writes=False,
        )
        records = [_record(row) for row in rows]
        is_full = len(records) == limit or sum(len(record.data) for record in records) >= LARGEST
        upto = records[-1].position if records and is_full else max(after, last)
        return EventPage(records=records, upto=upto)

    async def last(self) -> int:
        last: int = await self._database.value(self._sql(_LAST), self._ns, writes=False)
        return last

    async def prune(self, older_than: int, passed: Mapping[str, int], limit: int) -> int:
        told = as_json([{"topic": topic, "upto": upto} for topic, upto in passed.items()])
        removed: int = await self._database.value(self._sql(_PRUNE), self._ns, older_than, told, limit)
        return removed

    def _sql(self, sql: str) -> str:
        return rendered(sql, self._database.address)


def _record(row: Row) -> EventRecord:
    position, at, version, event_id, topic, kind, aggregate, data, headers = row
    return EventRecord(
        id=event_id,
        topic=topic,
        type=kind,
        data=data,
        position=position,
        at=at,
        aggregate=told_aggregate(aggregate),
        version=version,
        headers=headers,
    )
