"""Recurring work as applications steer it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import islice
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from holdfast.engine.ids import new_id
from holdfast.engine.notices import Notices
from holdfast.engine.partition import each_part
from holdfast.model import schedule as rules
from holdfast.model.errors import ScheduleGone, StateConflict, Undecodable, VersionConflict
from holdfast.model.events import Event
from holdfast.model.names import check_name
from holdfast.model.plan import Plan, ScheduleInfo, decode, is_paused
from holdfast.model.progress import is_schedule
from holdfast.model.records import Verdict
from holdfast.model.recurrence import Recurrence, upcoming
from holdfast.model.schedule import CATCH_UP, GRACE, Misfire, Overlap, ScheduleState
from holdfast.model.scheduling import ScheduleRecord, ScheduleWrite, as_written
from holdfast.model.task import Call, check_call
from holdfast.model.timing import SECOND, Seconds, moment
from holdfast.store import ScheduleStore, Session

log = logging.getLogger("holdfast.schedules")

_TRIES = 20
_PAGE = 500

Change: TypeAlias = Callable[[ScheduleRecord | None, int], ScheduleWrite | None]
"""What to write, given what is stored and the store's now; None for nothing."""


class Schedules:
    """The schedules of a namespace."""

    def __init__(self, session: Callable[[], Session], notices: Notices | None = None) -> None:
        self._session = session
        self._notices = notices

    async def put(
        self,
        name: str,
        recurrence: Recurrence,
        fires: Call | Event[Any],
        *,
        misfire: Misfire = "once",
        overlap: Overlap = "skip",
        jitter: Seconds = 0,
        catch_up: int = CATCH_UP,
        grace: Seconds = GRACE / SECOND,
        version: int | None = None,
    ) -> ScheduleInfo:
        """Stores a schedule of jobs or of events, or changes the one of that name.

        While the recurrence stays the same, no due time is lost or repeated by a change. `misfire` says what
        follows due times that nobody was there for: `once` fires the latest of them, `skip` none that is
        later than `grace`, `all` each, at most `catch_up`. `overlap` says what happens while the job of the
        last firing is live: `skip`, `queue`, or `allow`. Each job is due up to `jitter` later, always by the
        same for the same due time. With a `version`, VersionConflict if that is not the stored one; 0 means
        that there is none yet.
        """
        schedule = rules.schedule(
            name,
            recurrence,
            misfire=misfire,
            overlap=overlap,
            jitter=jitter,
            catch_up=catch_up,
            grace=grace,
        )
        what = fires if isinstance(fires, Event) else check_call(fires)
        return await self.declare(Plan.of(schedule, what), version)

    async def declare(self, plan: Plan, version: int | None = None) -> ScheduleInfo:
        """Stores a schedule as `put` does; nothing is written if it is stored just so.

        One that cannot be read is replaced, and begins anew, paused if it was.
        """

        def change(record: ScheduleRecord | None, now: int) -> ScheduleWrite | None:
            if record is None:
                return plan.write(rules.begin(plan.schedule, now), None, new_id())
            try:
                before, state = decode(record)
            except msgspec.MsgspecError:
                state = rules.begin(plan.schedule, now)
                return plan.write(rules.pause(state) if is_paused(record) else state, record, new_id())
            if before == plan:
                return None
            state = rules.edit(before.schedule, plan.schedule, state, now)
            return plan.write(state, record, new_id())

        return await self._change(plan.schedule.name, version, change)

    async def get(self, name: str) -> ScheduleInfo | None:
        """The schedule; None if there is none of that name, Undecodable if this version cannot read it."""
        told = await self._store.get([check_name(name, "schedule")])
        if not told.records:
            return None
        _read(told.records[0])
        return ScheduleInfo.of(told.records[0])

    async def remove(self, name: str) -> bool:
        """Ends a schedule; jobs that it has fired stay. False if there is none of that name."""
        return await self._store.remove(check_name(name, "schedule"))

    async def pause(self, name: str, *, version: int | None = None) -> ScheduleInfo:
        """Fires nothing until it is resumed."""
        return await self._steer(name, version, lambda plan, state, now: rules.pause(state))

    async def resume(self, name: str, *, version: int | None = None) -> ScheduleInfo:
        """Fires again, from the next due time on: what passed during the pause is not made up for."""
        return await self._steer(
            name, version, lambda plan, state, now: rules.resume(plan.schedule, state, now)
        )

    async def run(self, name: str) -> str:
        """Fires once more, now; gives the id of the job or event.

        StateConflict if it would overlap a run and may not.
        """
        fired: list[str] = []

        def change(record: ScheduleRecord | None, now: int) -> ScheduleWrite:
            found = _stored(record, name)
            plan, state = _read(found)
            is_live = found.run is not None and found.run.live
            decision = rules.run_now(plan.schedule, state, now, live=is_live)
            if not decision.firings:
                raise StateConflict(f"schedule {name}: its job {found.job} is still under way")
            write = plan.write(decision.state, found, new_id(), decision)
            # It is one more than those that are due, also in the very microsecond of one.
            fired[:] = [new_id()]
            if write.events:
                return replace(write, events=(replace(write.events[0], id=fired[0]),))
            return replace(write, job=fired[0], jobs=(replace(write.jobs[0], id=fired[0]),))

        await self._change(check_name(name, "schedule"), None, change)
        return fired[0]

    async def next(self, name: str, count: int = 10) -> list[datetime]:
        """The coming due times, as far as they are known without the runs.

        Of one that is paused: those that it would have if it were resumed now.
        """
        told = await self._store.get([check_name(name, "schedule")])
        plan, state = _read(_stored(told.records[0] if told.records else None, name))
        if state.paused:
            state = rules.resume(plan.schedule, state, told.now)
        coming = upcoming(plan.schedule.recurrence, state.next_due, state.origin)
        return [moment(due) for due in islice(coming, count)]

    @property
    def _store(self) -> ScheduleStore:
        return self._session().schedules

    async def _steer(
        self, name: str, version: int | None, steer: Callable[[Plan, ScheduleState, int], ScheduleState]
    ) -> ScheduleInfo:
        def change(record: ScheduleRecord | None, now: int) -> ScheduleWrite | None:
            found = _stored(record, name)
            plan, before = _read(found)
            after = steer(plan, before, now)
            return None if after == before else plan.write(after, found, new_id())

        return await self._change(check_name(name, "schedule"), version, change)

    async def _change(self, name: str, version: int | None, change: Change) -> ScheduleInfo:
        """Writes what follows from what is stored; anew if somebody else has written meanwhile."""
        store = self._store
        for _ in range(_TRIES):
            told = await store.get([name])
            record = told.records[0] if told.records else None
            stored = 0 if record is None else record.version
            if version is not None and version != stored:
                if self._notices:
                    self._notices.tell("version_conflict", of="schedule")
                raise VersionConflict(f"schedule {name} has version {stored}, not {version}")
            write = change(record, told.now)
            if write is None:
                assert record is not None
                return ScheduleInfo.of(record)
            if await store.write([write]) == [Verdict.ACCEPTED]:
                return ScheduleInfo.of(as_written(write, None if record is None else record.run))
        raise VersionConflict(f"schedule {name} was changed by others {_TRIES} times in a row")

    async def page(self, after: str = "", limit: int = 100) -> list[ScheduleInfo]:
        """Up to `limit` of them by name, the first one behind `after`; those that cannot be read left out."""

        async def ask(session: Session) -> list[ScheduleInfo]:
            return await _some(session, after, limit)

        parts = await each_part(self._session(), ask)
        found = [replace(info, partition=name) for name, infos in parts for info in infos]
        return sorted(found, key=lambda info: info.name)[:limit]

    async def list(self) -> list[ScheduleInfo]:
        """All of them, by name. Those that this version cannot read are left out, and named in the log."""
        return await self.page(limit=sys.maxsize)


async def _some(session: Session, after: str, most: int) -> list[ScheduleInfo]:
    found: list[ScheduleInfo] = []
    while len(found) < most:
        size = min(_PAGE, most - len(found))
        stored = (await session.schedules.list(after, size)).records
        page = [record for record in stored if is_schedule(record.name)]
        found += _readable(page)
        if len(page) < size:
            break
        after = page[-1].name
    return found


def _stored(record: ScheduleRecord | None, name: str) -> ScheduleRecord:
    if record is None:
        raise ScheduleGone(f"no schedule {name} is stored; app.schedules.list() has all of them")
    return record


def _read(record: ScheduleRecord) -> tuple[Plan, ScheduleState]:
    try:
        return decode(record)
    except msgspec.MsgspecError as error:
        raise Undecodable(
            f"schedule {record.name}",
            f"cannot be read ({error}); it was stored by a newer version, or names a time zone that this "
            "machine does not know. Put it anew, or remove it",
        ) from None


def _readable(records: Iterable[ScheduleRecord]) -> Iterable[ScheduleInfo]:
    for record in records:
        try:
            yield ScheduleInfo.of(record)
        except msgspec.MsgspecError as error:
            fields = {"schedule": record.name, "error": str(error)}
            log.warning("a schedule cannot be read; it is not listed", extra={"fields": fields})
