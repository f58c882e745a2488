"""Schedules: each one value, of which scripts read no more than the beginning."""

from collections.abc import Sequence
from struct import Struct
from typing import Any, Final

import msgspec

from holdfast.model.lifecycle import FINISHED
from holdfast.model.records import Verdict
from holdfast.model.scheduling import Run, ScheduleRecord, Schedules, ScheduleWrite, Term
from holdfast.stores.bell import Bell
from holdfast.stores.listeners import Listeners
from holdfast.stores.redis.adding import flat, has_flow
from holdfast.stores.redis.appending import flat_events
from holdfast.stores.redis.database import Database
from holdfast.stores.redis.records import EXACT, sortable, state_of, text, unsortable

STEP: Final = 1_000
"""How many schedules one script looks at."""

_FIRST = 7
"""Where the arguments begin to which others refer, as the script counts them."""

_HAS_LOOK, _WAITS, _HAS_JOB = 1, 2, 4
_FIXED = Struct(">QB8sHHI")
_JOB = Struct(">B16xqq")
_VERDICTS = {"0": Verdict.REFUSED, "1": Verdict.ACCEPTED}

_encode = msgspec.msgpack.encode


class RedisSchedules:
    """Schedules of one namespace."""

    def __init__(self, database: Database, bell: Bell, listeners: Listeners) -> None:
        self._database = database
        self._bell = bell
        self._listeners = listeners
        self._waited = b""

    async def write(self, writes: Sequence[ScheduleWrite], term: Term | None = None) -> list[Verdict] | None:
        held = (b"", b"", b"") if term is None else (term.lock, term.owner, term.token)
        wake = self._bell.strike()
        script = "schedule_write_events" if any(write.events for write in writes) else "schedule_write"
        if any(has_flow(write.jobs) for write in writes):
            script = "schedule_write_flow"
        told = await self._database.run(script, wake or b"", *held, *_packed(writes))
        is_untold, verdicts = (0, b"") if told is None else told
        if is_untold:
            self._bell.struck(wake)
        elif wake:
            self._bell.spared()
        if told is None:
            return None
        if not is_untold:
            self._listeners.wake()
        return [_VERDICTS[letter] for letter in verdicts.decode()]

    async def remove(self, name: str) -> bool:
        gone: int = await self._database.run("schedule_remove", name)
        return gone == 1

    async def get(self, names: Sequence[str]) -> Schedules:
        found = Schedules(now=0, records=[])
        for first in range(0, max(1, len(names)), STEP):
            now, *told = await self._database.run("schedule_get", *names[first : first + STEP], writes=False)
            found.now = int(now)
            found.records += _records(told)
        return found

    async def list(self, after: str, limit: int) -> Schedules:
        found, last = Schedules(now=0, records=[]), after.encode()
        while True:
            step = min(STEP, max(0, limit - len(found.records)))
            now, going_on, *told = await self._database.run("schedule_list", last, step, writes=False)
            found.now = int(now)
            found.records += _records(told)
            if going_on is None or len(found.records) >= limit:
                return found
            last = going_on

    async def due(self, limit: int) -> Schedules:
        """One call looks at STEP of those that are due, and STEP of those that wait, in turns."""
        now, following, self._waited, *told = await self._database.run(
            "schedule_due", max(0, min(limit, STEP)), self._waited, STEP, writes=False
        )
        next_look = None if following is None else max(0, unsortable(following) - int(now))
        return Schedules(now=int(now), records=_records(told), next_look=next_look)


def _packed(writes: Sequence[ScheduleWrite]) -> list[bytes]:
    """The names, jobs and events; then the values of the schedules, and the bodies of jobs and events."""
    bodies: list[bytes] = []
    jobs = [flat(write.jobs, _FIRST + len(writes), bodies) for write in writes]
    sent: dict[str, Any] = {
        "names": [write.name for write in writes],
        "after": [write.after or False for write in writes],
        "ids": [job.id for write in writes for job in write.jobs],
        "jobs": jobs,
    }
    if any(write.events for write in writes):
        sent["events"] = [flat_events(write.events, _FIRST + len(writes), bodies) for write in writes]
    return [_encode(sent), *map(_value, writes), *bodies]


def _value(write: ScheduleWrite) -> bytes:
    # What no stored one can have becomes 0, which fits none.
    version = write.version + 1 if 0 <= write.version < EXACT - 1 else 0
    flags = _WAITS if write.waits else 0
    look, job, mark = bytes(8), b"", write.mark.encode()
    if write.look_at is not None:
        flags |= _HAS_LOOK
        look = sortable(write.look_at)
    if write.job is not None:
        flags |= _HAS_JOB
        job = write.job.encode()
    fixed = _FIXED.pack(version, flags, look, len(mark), len(job), len(write.definition))
    return b"".join((fixed, mark, job, write.definition, write.state))


def _records(told: Sequence[Any]) -> list[ScheduleRecord]:
    """Schedules, each told by its name, its value and the beginning of its job's record."""
    return [_record(*each) for each in zip(told[::3], told[1::3], told[2::3], strict=True)]


def _record(name: bytes, value: bytes, job_record: bytes | None) -> ScheduleRecord:
    version, flags, look, mark_size, job_size, size = _FIXED.unpack_from(value)
    job = _FIXED.size + mark_size
    definition = job + job_size
    return ScheduleRecord(
        name=text(name),
        version=version,
        mark=text(value[_FIXED.size : job]),
        definition=value[definition : definition + size],
        state=value[definition + size :],
        look_at=unsortable(look) if flags & _HAS_LOOK else None,
        job=text(value[job:definition]) if flags & _HAS_JOB else None,
        waits=flags & _WAITS != 0,
        run=_run(job_record),
    )


def _run(record: bytes | None) -> Run:
    if record is None:
        return Run()
    code, ends, started = _JOB.unpack_from(record)
    is_finished = state_of(code) in FINISHED
    return Run(live=not is_finished, started=started or None, finished=ends if is_finished else None)
