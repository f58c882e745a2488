"""What a worker and its child process say to each other: JSON messages with a length in front."""

from __future__ import annotations

import struct
from typing import TypeAlias, Union

import msgspec

from holdfast.model.events import NewEvent
from holdfast.model.records import JobRecord, NewJob

HEADER = struct.Struct("!I")
SCRIPT = "__holdfast_child__"
"""What a script is called in a child, so that it does not run as a program there."""
PYTHONPATH = "PYTHONPATH"


class Assignment(msgspec.Struct, tag="assignment"):
    """A job for the child: where its handler is defined in the application's own code, and the job."""

    module: str
    main: str | None
    name: str
    record: JobRecord
    store: str
    namespace: str
    result_bytes: int
    error_bytes: int
    levels: dict[str, int]
    partition: str | None = None
    trace: dict[str, str] | None = None
    """What the attempt's span would have its own jobs carry; None if nobody follows it."""


class Progressed(msgspec.Struct, tag="progress"):
    """The handler reported progress."""

    fraction: float
    note: str | None


class Logged(msgspec.Struct, tag="logged"):
    """The handler, or something that it uses, logged."""

    name: str
    level: int
    message: str
    created: float
    fields: dict[str, bool | int | float | str | None]
    extra: dict[str, bool | int | float | str | None]
    error: str | None


class Returned(msgspec.Struct, tag="returned"):
    """The handler returned."""

    result: bytes | None
    children: list[NewJob]
    events: list[NewEvent]
    committed: bool


class Raised(msgspec.Struct, tag="raised"):
    """The handler raised.

    `module` and `kind` name the exception's class; `after` and `count` are those of a Retry.
    """

    reason: str
    error: str | None
    module: str
    kind: str
    after: float | None = None
    count: bool = True


class Ceased(msgspec.Struct, tag="ceased"):
    """The handler was cancelled."""


Said: TypeAlias = Union[Progressed, Logged, Returned, Raised, Ceased]  # noqa: UP007  msgspec reads it at run time

said: msgspec.json.Decoder[Said] = msgspec.json.Decoder(Said)
assignments: msgspec.json.Decoder[Assignment] = msgspec.json.Decoder(Assignment)


def frame(message: msgspec.Struct) -> bytes:
    body = msgspec.json.encode(message)
    return HEADER.pack(len(body)) + body
