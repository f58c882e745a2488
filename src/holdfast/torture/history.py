"""What the processes of a campaign did and saw: one file a process, one line a record.

A line is written whole and at once, so a process that is killed leaves every line that it wrote, and
perhaps a torn last one.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias, Union

import msgspec

FOLDER = "history"
SUFFIX = ".jsonl"

Verb = Literal[
    "enqueue",
    "enqueue_many",
    "cancel",
    "replay",
    "edit",
    "delete",
    "emit",
    "emit_rolled_back",
    "lock",
    "cli",
]
Ended = Literal["success", "failure", "retry", "cancelled", "lost"]
Settled = Literal["success", "failed", "retry", "released", "lost", "cancelled", "superseded"]
Phase = Literal["begin", "end", "once"]


class Record(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False, tag_field="kind"):
    """One line: when, by CLOCK_MONOTONIC in microseconds, and by whom. The recorder fills both in."""

    at: int = 0
    who: str = ""


class Call(Record, tag="call"):
    """A call is about to be made; `op` numbers it within its process, and the recorder fills it in.

    One that makes jobs names each by `job` or `key`, so that whatever it made can be told from what others
    made. `does` is what a command line call does: one of the other verbs.
    """

    verb: Verb
    op: int = 0
    does: Verb | None = None
    task: str | None = None
    job: str | None = None
    key: str | None = None
    jobs: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    event: str | None = None
    aggregate: str | None = None
    lock: str | None = None
    again: bool = False
    """It repeats a call whose outcome was unknown."""


class Done(Record, tag="done"):
    """The call was answered. `verdict` is what a cancel or a command line call said, in its own word."""

    op: int
    job: str | None = None
    jobs: tuple[str, ...] = ()
    created: bool | None = None
    verdict: str | None = None
    version: int | None = None
    token: int | None = None


class Failed(Record, tag="failed"):
    """The call raised, and surely changed nothing. `error` is the name of what it raised."""

    op: int
    error: str


class Unknown(Record, tag="unknown"):
    """The call raised, and may have been done. A call without any answer counts as this."""

    op: int
    error: str


class Start(Record, tag="start"):
    """A handler begins."""

    job: str
    task: str
    run: int
    token: int


class Effect(Record, tag="effect"):
    """A handler has its effect on the world outside of the store, which is this line."""

    job: str
    run: int
    token: int


class End(Record, tag="end"):
    """What a handler did, written before it returns or raises."""

    job: str
    run: int
    token: int
    outcome: Ended


class Verdict(Record, tag="verdict"):
    """What the store answered to the move that ended an attempt, as its worker was told."""

    job: str
    token: int
    outcome: Settled
    accepted: bool


class Granted(Record, tag="granted"):
    """A lock was granted in answer to the call `op` of the same process."""

    lock: str
    token: int
    op: int


class Fenced(Record, tag="fenced"):
    """A resource that knows tokens and nothing else was written to, or refused.

    `order` counts what was asked of it, in the order of its own decisions.
    """

    lock: str
    token: int
    accepted: bool
    order: int


class Lost(Record, tag="lost"):
    """The holder was told that its lock is, or may be, another's."""

    lock: str
    token: int


class Freed(Record, tag="freed"):
    """The lock was given back; `held` if its holder had no reason to think that it was lost."""

    lock: str
    token: int
    held: bool = True


class Consumed(Record, tag="consumed"):
    """A consumer handles an event; `again` if it knows that it was delivered before."""

    group: str
    event: str
    aggregate: str
    version: int
    again: bool = False


class Led(Record, tag="led"):
    """A candidate became leader."""

    term: int


class Fault(Record, tag="fault"):
    """A fault begins, ends, or happens `once`. `target` is the WHO of a process, "store", or a connection.

    `count` tells at its end how often it struck (replies swallowed, connections cut); `facts` are for people.
    """

    name: str
    target: str
    phase: Phase
    count: int = 0
    facts: dict[str, bool | int | float | str | None] = {}


class Calm(Record, tag="calm"):
    """No more faults from here on: everything must settle."""


Line: TypeAlias = Union[  # noqa: UP007  msgspec reads it at run time
    Call,
    Done,
    Failed,
    Unknown,
    Start,
    Effect,
    End,
    Verdict,
    Granted,
    Fenced,
    Lost,
    Freed,
    Consumed,
    Led,
    Fault,
    Calm,
]

lines: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


class Unreadable(ValueError):
    """A line that is no record, and is not the last one of its file."""


class Recorder:
    """Writes the records of one process, from any of its threads; a child process has another one.

    Clocks that are faked for a process must leave CLOCK_MONOTONIC alone, or its records lie.
    """

    def __init__(self, out: Path, who: str) -> None:
        folder = out / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        self.who = who
        self._file = os.open(folder / f"{who}{SUFFIX}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._encoder = msgspec.json.Encoder()
        self._ops = itertools.count(1)

    def write(self, record: Line) -> None:
        record.at = time.monotonic_ns() // 1000
        record.who = self.who
        os.write(self._file, self._encoder.encode(record) + b"\n")

    def call(self, call: Call) -> int:
        """Writes the call down, and gives the `op` for its answer."""
        call.op = next(self._ops)
        self.write(call)
        return call.op

    def close(self) -> None:
        os.close(self._file)


def read_file(path: Path) -> Iterator[Line]:
    """The records of one process, in the order in which it wrote them; a torn last line is left out."""
    text = path.read_bytes()
    whole, _, _torn = text.rpartition(b"\n")
    for number, line in enumerate(whole.split(b"\n"), start=1):
        if line:
            yield _read_line(path, number, line)


def _read_line(path: Path, number: int, line: bytes) -> Line:
    try:
        return lines.decode(line)
    except msgspec.DecodeError as error:
        raise Unreadable(f"{path.name}:{number}: {error}") from None


def read(out: Path) -> list[Line]:
    """The records of all processes, in the order of their times."""
    files = sorted((out / FOLDER).glob(f"*{SUFFIX}"))
    return sorted((record for path in files for record in read_file(path)), key=_when)


def _when(record: Line) -> int:
    return record.at
