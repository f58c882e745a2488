"""Schedules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.model.records import Verdict
from holdfast.model.scheduling import Run, ScheduleRecord, Schedules, ScheduleWrite, Term
from holdfast.stores.bell import Bell
from holdfast.stores.postgres.adding import as_json
from holdfast.stores.postgres.appending import as_json as events_as_json
from holdfast.stores.postgres.database import Database
from holdfast.stores.postgres.queries import Queries
from holdfast.stores.postgres.rows import to_hex

_encode = msgspec.json.encode


class PostgresSchedules:
    """Schedules of one namespace."""

    def __init__(self, database: Database, queries: Queries, ns: int, bell: Bell) -> None:
        self._database = database
        self._queries = queries
        self._ns = ns
        self._bell = bell

    async def write(self, writes: Sequence[ScheduleWrite], term: Term | None = None) -> list[Verdict] | None:
        wakes = any(map(may_wake, writes))
        wake = self._bell.strike() if wakes else None
        refused: list[int] | None = await self._database.value(
            self._queries.schedule_write,
            self._ns,
            *_term(term),
            *_arrays(writes),
            _as_text(_fired(writes)),
            _as_text(_told(writes)),
            wake,
        )
        if refused is None:
            return None
        if wakes:
            self._bell.struck(wake)
        verdicts = [Verdict.ACCEPTED] * len(writes)
        for place in refused:
            verdicts[place - 1] = Verdict.REFUSED
        return verdicts

    async def remove(self, name: str) -> bool:
        removed = await self._database.value(self._queries.schedule_remove, self._ns, name)
        return removed is not None

    async def get(self, names: Sequence[str]) -> Schedules:
        return await self._read(self._queries.schedules, list(names))

    async def list(self, after: str, limit: int) -> Schedules:
        return await self._read(self._queries.schedules_after, after, limit)

    async def due(self, limit: int) -> Schedules:
        return await self._read(self._queries.schedules_due, limit)

    async def _read(self, sql: str, *args: object) -> Schedules:
        """Each row begins with now and when to look again; a single one may have nothing else."""
        rows = await self._database.rows(sql, self._ns, *args)
        records = [_record(row) for row in rows if row["name"] is not None]
        return Schedules(now=rows[0][0], next_look=rows[0][1], records=records)


def may_wake(write: ScheduleWrite) -> bool:
    """Whether the write makes work for others, or is to be looked at."""
    return write.look_at is not None or write.waits or bool(write.jobs) or bool(write.events)


def as_dict(write: ScheduleWrite, term: Term) -> dict[str, Any]:
    """The write for the server's `write_in`."""
    return {
        "lock": term.lock,
        "owner": term.owner,
        "token": term.token,
        "name": write.name,
        "version": write.version,
        "mark": write.mark,
        "after": write.after,
        "look_at": write.look_at,
        "job": write.job,
        "waits": write.waits,
        "definition": to_hex(write.definition),
        "state": to_hex(write.state),
        "fired": _fired([write], joined=True) or None,
        "events": events_as_json(write.events) or None,
    }


def _term(term: Term | None) -> tuple[str | None, str | None, int | None]:
    return (None, None, None) if term is None else (term.lock, term.owner, term.token)


def _arrays(writes: Sequence[ScheduleWrite]) -> tuple[Any, ...]:
    return (
        [write.name for write in writes],
        [write.version for write in writes],
        [write.mark for write in writes],
        [write.after for write in writes],
        [write.look_at for write in writes],
        [write.job for write in writes],
        [write.waits for write in writes],
        [write.definition for write in writes],
        [write.state for write in writes],
    )


def _fired(writes: Sequence[ScheduleWrite], *, joined: bool = False) -> list[list[dict[str, Any]]]:
    """All jobs, each with the place of its schedule, counted from 1.

    In two batches, because one in which a key is taken is added one by one.
    """
    jobs = [
        {**job, "of": place}
        for place, write in enumerate(writes, start=1)
        for job in as_json(write.jobs, joined=joined)
    ]
    batches = ([job for job in jobs if (job["key"] is None) is is_plain] for is_plain in (True, False))
    return [batch for batch in batches if batch]


def _told(writes: Sequence[ScheduleWrite]) -> list[dict[str, Any]]:
    """All events, each with the place of its schedule, counted from 1."""
    return [
        {**event, "of": place}
        for place, write in enumerate(writes, start=1)
        for event in events_as_json(write.events)
    ]


def _as_text(found: list[Any]) -> str | None:
    return _encode(found).decode() if found else None


def _record(row: Any) -> ScheduleRecord:
    return ScheduleRecord(
        name=row["name"],
        version=row["version"],
        mark=row["mark"],
        definition=row["definition"],
        state=row["state"],
        look_at=row["look_at"],
        job=None if row["job"] is None else str(row["job"]),
        waits=row["waits"],
        run=Run(live=row["live"], started=row["started"], finished=row["finished"]),
    )
