"""What travels with a job or an event beside its payload: a JSON object that only the engine reads.

`firing` tells which schedule made it (see `plan`), `trace` what its sender's tracer gave it to carry. Headers
are no part of what a job is: neither a key nor an id conflicts because of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.model.events import NewEvent
from holdfast.model.records import NewJob

TRACE = "trace"

MOST_CARRIED = 8_192
"""So many characters may a tracer have a job carry; what is more, and comes later, is left out."""

Carrier = Mapping[str, str]
New = TypeVar("New", NewJob, NewEvent)

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_carrier = msgspec.json.Decoder(dict[str, str]).decode


def carrying(new: New, carrier: Carrier) -> New:
    """The job or event with what it shall carry; as it was if that is nothing."""
    return replace(new, headers=headers_carrying(carrier, new.headers)) if carrier else new


def headers_carrying(carrier: Carrier, before: bytes | None = None) -> bytes:
    """Headers with what is carried, and with what they had before."""
    kept: dict[str, str] = {}
    size = 0
    for name, value in carrier.items():
        size += len(name) + len(value)
        if size <= MOST_CARRIED:
            kept[name] = value
    headers = {} if before is None else _decode(before)
    return msgspec.json.encode({**headers, TRACE: kept})


def carried(headers: bytes | None) -> dict[str, str]:
    """What a job or event carries; nothing if it has no headers, or some that cannot be read."""
    if headers is None:
        return {}
    try:
        found = _decode(headers).get(TRACE)
        return {} if found is None else _decode_carrier(found)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
