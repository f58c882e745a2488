"""What stands in the store when a campaign is over, as read by its own programs after everything settled.

Instants and durations are microseconds of the store's clock, unless a field says otherwise.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

NAME = "dump.json"


class Attempt(msgspec.Struct, kw_only=True, gc=False):
    """One ended attempt, as history tells it."""

    run: int
    token: int
    worker: str
    started: int | None
    finished: int
    outcome: str
    reason: str | None = None


class Firing(msgspec.Struct, kw_only=True, gc=False):
    """The schedule and the due time that a job was made for."""

    schedule: str
    due: int


class Job(msgspec.Struct, kw_only=True, gc=False):
    """A job as it stands. `parent` made it in its own completion."""

    id: str
    task: str
    state: str
    run: int
    failures: int
    lost: int
    token: int
    version: int
    created: int
    key: str | None = None
    worker: str | None = None
    finished: int | None = None
    firing: Firing | None = None
    parent: str | None = None
    attempts: tuple[Attempt, ...] = ()


class Entry(msgspec.Struct, kw_only=True, gc=False):
    """One row that a handler wrote in the transaction of its own completion."""

    job: str
    token: int


class Event(msgspec.Struct, kw_only=True, gc=False):
    """An event as it stands in the log."""

    position: int
    id: str
    aggregate: str
    version: int


class Group(msgspec.Struct, kw_only=True):
    """A group of consumers that follows the whole log."""

    name: str
    offset: int = 0


class Lock(msgspec.Struct, kw_only=True):
    """A lock that is still held."""

    name: str
    token: int
    owner: str = ""


class Schedule(msgspec.Struct, kw_only=True):
    """A schedule whose due times are `first`, `first + interval` and so on.

    `last` is the last one that was decided on. Every one up to it has its job if the schedule is `complete`,
    that is, if it makes up for all that it missed.
    """

    name: str
    first: int
    interval: int
    last: int | None
    next: int | None = None
    complete: bool = True


class Store(msgspec.Struct, kw_only=True):
    """What kind of store it was, and what it promises to keep."""

    kind: str
    durability: str = ""


class Limits(msgspec.Struct, kw_only=True):
    """What the campaign was set to. `settle` is how long everything may take after the last fault."""

    lease: int
    sweep: int
    attempts: int
    losses: int
    settle: int


class Dump(msgspec.Struct, kw_only=True):
    """The final state. `stats` counts jobs by state as the store itself tells it.

    `ledger_tasks` are the tasks whose every success writes one ledger row. `settled_after` counts from the
    calm to the last job's end, in real time; None if it never came. `canary` is a secret that no log may
    show. `floors` says what must have happened how often for a clean result to count: a name of a fault, or
    jobs, stale writes, unknown outcomes, take-overs, leader changes, lost replies. `left_out` names the
    faults that could not be done there, and why.
    """

    store: Store
    limits: Limits
    jobs: list[Job]
    ledger: list[Entry] = []
    ledger_tasks: tuple[str, ...] = ()
    events: list[Event] = []
    groups: list[Group] = []
    locks: list[Lock] = []
    schedules: list[Schedule] = []
    stats: dict[str, int] = {}
    settled_after: int | None = None
    canary: str = ""
    floors: dict[str, int] = {}
    left_out: dict[str, str] = {}
    seed: int | None = None
    commit: str = ""


def write(out: Path, dump: Dump) -> None:
    (out / NAME).write_bytes(msgspec.json.encode(dump))


def read(out: Path) -> Dump:
    return msgspec.json.decode((out / NAME).read_bytes(), type=Dump)
