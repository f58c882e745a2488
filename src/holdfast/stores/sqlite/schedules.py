"""Schedules."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.model.events import NewEvent
from holdfast.model.records import NewJob, Verdict
from holdfast.model.scheduling import Run, ScheduleRecord, Schedules, ScheduleWrite, Term
from holdfast.stores.sqlite import feed
from holdfast.stores.sqlite.adding import add
from holdfast.stores.sqlite.answers import reader
from holdfast.stores.sqlite.appending import append
from holdfast.stores.sqlite.database import Database
from holdfast.stores.sqlite.transaction import Transaction


class Row(msgspec.Struct, array_like=True, gc=False):
    """A stored schedule with what became of its job, bytes in hexadecimal."""

    name: str
    version: int
    mark: str
    definition: str
    state: str
    look_at: int | None
    job: str | None
    waits: int
    live: int
    started: int | None
    finished: int | None


_decode = reader(list[Row])
_decode_names = reader(list[str])
_decode_marks = reader(list[tuple[str, int, str]])


class SqliteSchedules:
    """Schedules of one namespace."""

    def __init__(self, database: Database, ns: int) -> None:
        self._database = database
        self._ns = ns

    async def write(self, writes: Sequence[ScheduleWrite], term: Term | None = None) -> list[Verdict] | None:
        wakes = any(
            write.look_at is not None or write.waits or write.jobs or write.events for write in writes
        )
        return await self._database.write(self._ns, lambda tx: write_schedules(tx, writes, term), wakes=wakes)

    async def remove(self, name: str) -> bool:
        return await self._database.write(
            self._ns, lambda tx: tx.run("schedule_remove", name=name).rowcount > 0
        )

    async def get(self, names: Sequence[str]) -> Schedules:
        return await self._database.read(self._ns, lambda tx: _told(tx, names))

    async def list(self, after: str, limit: int) -> Schedules:
        def work(tx: Transaction) -> Schedules:
            return _told(tx, _decode_names(tx.row("schedules_after", after=after, limit=limit)[0]))

        return await self._database.read(self._ns, work)

    async def due(self, limit: int) -> Schedules:
        return await self._database.read(self._ns, lambda tx: _due(tx, limit))


def write_schedules(
    tx: Transaction, writes: Sequence[ScheduleWrite], term: Term | None
) -> list[Verdict] | None:
    """Stores schedules with their jobs and events; a verdict each, None if the term is over."""
    if term is not None and not _is_held(tx, term):
        return None
    return _written(tx, writes)


def write_schedule_in(tx: Transaction, write: ScheduleWrite, term: Term) -> Verdict:
    """Stores a schedule in somebody's transaction. The lock may have run out, unless another has taken it.

    Nobody could renew it, or take it, while the transaction has been writing.
    """
    if not tx.run("lock_left", name=term.lock, owner=term.owner, token=term.token).fetchone():
        return Verdict.REFUSED
    return _written(tx, [write])[0]


def _written(tx: Transaction, writes: Sequence[ScheduleWrite]) -> list[Verdict]:
    marks = tx.row("schedule_marks", names=feed.as_json([write.name for write in writes]))[0]
    stored = {name: (version, mark) for name, version, mark in _decode_marks(marks)}
    changed: dict[str, ScheduleWrite] = {}
    jobs: list[NewJob] = []
    events: list[NewEvent] = []
    verdicts: list[Verdict] = []
    for write in writes:
        version, mark = stored.get(write.name, (0, ""))
        is_current = version == write.version and write.after in (None, mark)
        is_repeat = version == write.version + 1 and mark == write.mark
        verdicts.append(Verdict.ACCEPTED if is_current or is_repeat else Verdict.REFUSED)
        if is_current:
            stored[write.name] = (version + 1, write.mark)
            changed[write.name] = write
            jobs += write.jobs
            events += write.events
    if changed:
        run = feed.Run()
        tx.run("schedules_put", **feed.feed([_row(write, run) for write in changed.values()], run))
    # Apart, because a batch in which a key is taken is added one by one.
    add(tx, [job for job in jobs if job.key is None])
    add(tx, [job for job in jobs if job.key is not None])
    append(tx, events)
    return verdicts


def _is_held(tx: Transaction, term: Term) -> bool:
    held = tx.run("lock", name=term.lock).fetchone()
    return held is not None and held[:2] == (term.owner.encode(), term.token)


def _row(write: ScheduleWrite, run: feed.Run) -> tuple[object, ...]:
    return (
        write.name,
        write.version + 1,
        write.mark,
        write.look_at,
        write.job,
        int(write.waits),
        *run.put(write.definition),
        *run.put(write.state),
    )


def _due(tx: Transaction, limit: int) -> Schedules:
    found, later = tx.row("schedules_due", limit=limit)
    names = _decode_names(found)
    following = tx.now if len(names) > limit else later
    names = names[:limit]
    if len(names) < limit:
        names += _decode_names(tx.row("schedules_ended", limit=limit - len(names))[0])
    told = _told(tx, names)
    told.next_look = None if following is None else following - tx.now
    return told


def _told(tx: Transaction, names: Sequence[str]) -> Schedules:
    rows = _decode(tx.row("schedules", names=feed.as_json(names))[0]) if names else []
    return Schedules(now=tx.now, records=[_record(row) for row in rows])


def _record(row: Row) -> ScheduleRecord:
    return ScheduleRecord(
        name=row.name,
        version=row.version,
        mark=row.mark,
        definition=bytes.fromhex(row.definition),
        state=bytes.fromhex(row.state),
        look_at=row.look_at,
        job=row.job,
        waits=row.waits != 0,
        run=Run(live=row.live != 0, started=row.started, finished=row.finished),
    )
