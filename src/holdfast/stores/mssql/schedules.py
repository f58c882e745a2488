"""Schedules."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from holdfast.model.errors import StoreUnavailable
from holdfast.model.records import Verdict
from holdfast.model.scheduling import Run, ScheduleRecord, Schedules, ScheduleWrite, Term
from holdfast.stores.bell import Bell
from holdfast.stores.mssql import adding, appending
from holdfast.stores.mssql.database import Database
from holdfast.stores.mssql.driver import Fault, Row, Value
from holdfast.stores.mssql.faults import is_locked_out
from holdfast.stores.mssql.queries import rendered
from holdfast.stores.mssql.rows import Bytes, as_json

_WRITE = "EXEC holdfast.schedule_write_v1 ?, ?, ?, ?, ?, ?, ?, ?, ?"
_REMOVE = "DELETE FROM holdfast.schedule WHERE ns = ? AND name = ?; SELECT @@ROWCOUNT"
_GET = "EXEC holdfast.schedules_get_v1 ?, ?"
_LIST = "EXEC holdfast.schedules_after_v1 ?, ?, ?"
_DUE = "EXEC holdfast.schedules_due_v1 ?, ?"


class MssqlSchedules:
    """Schedules of one namespace."""

    def __init__(self, database: Database, ns: int, bell: Bell) -> None:
        self._database = database
        self._ns = ns
        self._bell = bell

    async def write(self, writes: Sequence[ScheduleWrite], term: Term | None = None) -> list[Verdict] | None:
        try:
            verdicts = await self._write(writes, term, hasty=False)
        except StoreUnavailable as error:
            if not _is_locked(error):
                raise
            verdicts = await self._write_each(writes, term)
        if verdicts is not None and any(map(may_wake, writes)):
            self._bell.struck(None)
        return verdicts

    async def remove(self, name: str) -> bool:
        removed: int = await self._database.value(self._sql(_REMOVE), self._ns, name)
        return removed > 0

    async def get(self, names: Sequence[str]) -> Schedules:
        return await self._read(_GET, as_json(names))

    async def list(self, after: str, limit: int) -> Schedules:
        return await self._read(_LIST, after, limit)

    async def due(self, limit: int) -> Schedules:
        return await self._read(_DUE, limit)

    async def _write_each(
        self, writes: Sequence[ScheduleWrite], term: Term | None
    ) -> builtins.list[Verdict] | None:
        """Each by itself: what somebody else has locked for long is refused, and keeps nobody waiting."""
        verdicts: builtins.list[Verdict] = []
        for write in writes:
            try:
                verdict = await self._write([write], term, hasty=True)
            except StoreUnavailable as error:
                if not _is_locked(error):
                    raise
                verdict = [Verdict.REFUSED]
            if verdict is None:
                return None
            verdicts += verdict
        return verdicts

    async def _write(
        self, writes: Sequence[ScheduleWrite], term: Term | None, *, hasty: bool
    ) -> builtins.list[Verdict] | None:
        held_under = (None, None, None) if term is None else (term.lock, term.owner, term.token)
        told: str | None = await self._database.value(
            self._sql(_WRITE), self._ns, *held_under, *sent(writes), hasty
        )
        if told is None:
            return None
        refused = {int(place) for place in told.split(",") if place}
        return [
            Verdict.REFUSED if place in refused else Verdict.ACCEPTED for place in range(1, len(writes) + 1)
        ]

    async def _read(self, sql: str, *args: Value) -> Schedules:
        [(now, next_look)], rows = await self._database.execute(self._sql(sql), self._ns, *args, writes=False)
        return Schedules(now=now, next_look=next_look, records=[_record(row) for row in rows])

    def _sql(self, sql: str) -> str:
        return rendered(sql, self._database.address)


def _is_locked(error: StoreUnavailable) -> bool:
    return isinstance(error.__cause__, Fault) and is_locked_out(error.__cause__)


def may_wake(write: ScheduleWrite) -> bool:
    """Whether the write makes work for others, or is to be looked at."""
    return write.look_at is not None or write.waits or bool(write.jobs) or bool(write.events)


def sent(
    writes: Sequence[ScheduleWrite], *, joined: bool = False
) -> tuple[str, str | None, str | None, bytes]:
    """What the server's procedures take: the writes, their jobs, their events, and the bytes of all."""
    held = Bytes()
    told = [_as_dict(place, write, held) for place, write in enumerate(writes, start=1)]
    jobs = [
        {**job, "of": place}
        for place, write in enumerate(writes, start=1)
        for job in adding.as_dicts(write.jobs, held, joined=joined)
    ]
    events = [
        {**event, "of": place}
        for place, write in enumerate(writes, start=1)
        for event in appending.as_dicts(write.events, held)
    ]
    return as_json(told), _counted(jobs), _counted(events), held.whole()


def _counted(found: list[dict[str, Any]]) -> str | None:
    """All of them counted from 1, whichever write they belong to."""
    return as_json([{**one, "n": n} for n, one in enumerate(found, start=1)]) if found else None


def _as_dict(place: int, write: ScheduleWrite, held: Bytes) -> dict[str, Any]:
    return {
        "place": place,
        "name": write.name,
        "version": write.version,
        "mark": write.mark,
        "after": write.after,
        "look_at": write.look_at,
        "job": write.job,
        "waits": write.waits,
        **held.put("definition", write.definition),
        **held.put("state", write.state),
    }


def _record(row: Row) -> ScheduleRecord:
    name, version, mark, definition, state, look_at, job, waits, live, started, finished = row
    return ScheduleRecord(
        name=name,
        version=version,
        mark=mark,
        definition=definition,
        state=state,
        look_at=look_at,
        job=job,
        waits=bool(waits),
        run=Run(live=bool(live), started=started, finished=finished),
    )
