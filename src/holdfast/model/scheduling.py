"""Schedules as they pass the seam: what a store keeps of them without understanding it."""

from __future__ import annotations

import msgspec

from holdfast.model.events import NewEvent
from holdfast.model.records import NewJob


class Run(msgspec.Struct, kw_only=True, frozen=True, gc=False):
    """What became of a job: whether it is live, and its times as far as they are stored."""

    live: bool = False
    started: int | None = None
    finished: int | None = None


class ScheduleRecord(msgspec.Struct, kw_only=True):
    """A schedule as stored.

    `mark` is that of the last write. `definition` and `state` are the engine's. `look_at` is when to look at
    it; None if nothing is known to be due. `job` is the job that it fired last, `run` what became of that.
    With `waits` it is to be looked at as soon as the job is not live.
    """

    name: str
    version: int
    mark: str
    definition: bytes
    state: bytes
    look_at: int | None
    job: str | None
    waits: bool
    run: Run | None = None


class Schedules(msgspec.Struct, kw_only=True):
    """Schedules as they stood at `now` of the store. `next_look` is how long until the next one is due."""

    now: int
    records: list[ScheduleRecord]
    next_look: int | None = None


class ScheduleWrite(msgspec.Struct, kw_only=True, frozen=True):
    """A schedule as it shall be, if `version` is that of the stored one, 0 if there is none.

    `mark` is unique to this write. `after` is the mark that the stored one must have, None if any will do:
    one that was removed and put there anew may have the same version, but never that. `jobs` are added,
    `events` appended.
    """

    name: str
    version: int
    mark: str
    after: str | None = None
    definition: bytes
    state: bytes
    look_at: int | None
    job: str | None = None
    waits: bool = False
    jobs: tuple[NewJob, ...] = ()
    events: tuple[NewEvent, ...] = ()


def as_written(write: ScheduleWrite, run: Run | None = None) -> ScheduleRecord:
    """The schedule as it stands once it was written."""
    return ScheduleRecord(
        name=write.name,
        version=write.version + 1,
        mark=write.mark,
        definition=write.definition,
        state=write.state,
        look_at=write.look_at,
        job=write.job,
        waits=write.waits,
        run=run,
    )


class Term(msgspec.Struct, kw_only=True, frozen=True):
    """A holding of a lock under which something may be written."""

    lock: str
    owner: str
    token: int
