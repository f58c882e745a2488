"""Events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from holdfast.model.events import EventPage, EventRecord, NewEvent
from holdfast.model.records import Added, NewJob
from holdfast.stores.sqlite.adding import add
from holdfast.stores.sqlite.answers import reader
from holdfast.stores.sqlite.appending import append
from holdfast.stores.sqlite.database import Database
from holdfast.stores.sqlite.feed import as_json
from holdfast.stores.sqlite.transaction import Transaction

PAGE_BYTES = 16 * 1024 * 1024
"""A page that would be larger ends earlier: in SQLite it is one value, twice as long, and has a limit."""


class Row(msgspec.Struct, array_like=True, gc=False):
    """A stored event, bytes in hexadecimal."""

    id: str
    topic: str
    type: str
    data: str
    position: int
    at: int
    aggregate: str | None
    version: int | None
    headers: str | None


_decode = reader(list[Row])
_decode_sizes = reader(list[tuple[int, int]])
_decode_prunable = reader(list[tuple[int, str, str | None, int | None]])


class SqliteEvents:
    """Events of one namespace."""

    def __init__(self, database: Database, ns: int) -> None:
        self._database = database
        self._ns = ns

    async def append(self, events: Sequence[NewEvent], jobs: Sequence[NewJob] = ()) -> list[Added]:
        def work(tx: Transaction) -> list[Added]:
            added = add(tx, jobs)
            append(tx, events)
            return added

        return await self._database.write(self._ns, work, wakes=True)

    async def read(
        self, after: int, limit: int, *, topic: str | None = None, aggregate: str | None = None
    ) -> EventPage:
        return await self._database.read(self._ns, lambda tx: _read(tx, after, limit, topic, aggregate))

    async def last(self) -> int:
        def work(tx: Transaction) -> int:
            last: int = tx.row("event_last")[0]
            return last

        return await self._database.read(self._ns, work)

    async def prune(self, older_than: int, passed: Mapping[str, int], limit: int) -> int:
        return await self._database.write(self._ns, lambda tx: _prune(tx, older_than, passed, limit))


def _read(tx: Transaction, after: int, limit: int, topic: str | None, aggregate: str | None) -> EventPage:
    conditions = "".join(
        f"AND {name} = :{name} "
        for name, value in (("topic", topic), ("aggregate", aggregate))
        if value is not None
    )
    asked = {"after": after, "limit": max(0, limit), "topic": topic, "aggregate": aggregate}
    page, last = tx.run_statement(tx.sql.get("events_after", conditions), asked).fetchone()
    sizes = _decode_sizes(page)
    positions = list(_within(sizes, PAGE_BYTES))
    records: list[EventRecord] = []
    if positions:
        records = [_record(row) for row in _decode(tx.row("events", positions=as_json(positions))[0])]
    is_all = len(positions) == len(sizes) < limit
    upto = max(after, last) if is_all else max([after, *positions])
    return EventPage(records=records, upto=upto)


def _within(sizes: Sequence[tuple[int, int]], most: int) -> Iterable[int]:
    """The first positions whose events are not larger than that together, but at least one."""
    total = 0
    for position, size in sizes:
        if total and total + size > most:
            return
        total += max(1, size)
        yield position


def _record(row: Row) -> EventRecord:
    return EventRecord(
        id=row.id,
        topic=row.topic,
        type=row.type,
        data=bytes.fromhex(row.data),
        position=row.position,
        at=row.at,
        aggregate=row.aggregate,
        version=row.version,
        headers=None if row.headers is None else bytes.fromhex(row.headers),
    )


def _prune(tx: Transaction, older_than: int, passed: Mapping[str, int], limit: int) -> int:
    found = tx.row(
        "events_prunable",
        passed=as_json(list(passed.items())),
        before=tx.now - older_than,
        limit=max(0, limit),
    )
    gone = _decode_prunable(found[0])
    if not gone:
        return 0
    tx.run("events_forget", positions=as_json([position for position, *_ in gone]))
    told = {(topic, aggregate): version for _, topic, aggregate, version in gone if aggregate is not None}
    if told:
        tx.run("event_floors", gone=as_json([(*line, version) for line, version in told.items()]))
    return len(gone)
