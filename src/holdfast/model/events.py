"""Events: what happened, kept in order for whoever wants to know, and delivered at least once."""

from __future__ import annotations

import msgspec


class NewEvent(msgspec.Struct, kw_only=True, frozen=True, gc=False):
    """An event to be stored. `id` is unique to it; `data` and `headers` are the engine's.

    Events of one topic and aggregate are told in order, those without an aggregate in any.
    """

    id: str
    topic: str
    type: str
    data: bytes
    aggregate: str | None = None
    headers: bytes | None = None


class EventRecord(msgspec.Struct, kw_only=True, frozen=True, gc=False):
    """An event as it stands in the store.

    `position` is its place among all events of the namespace, `version` among those of its aggregate (None
    without one), `at` the instant of the write that it belongs to.
    """

    id: str
    topic: str
    type: str
    data: bytes
    position: int
    at: int
    aggregate: str | None = None
    version: int | None = None
    headers: bytes | None = None


class Events(msgspec.Struct, kw_only=True):
    """Events in the order of their positions, and the position `upto` which there are no others like them."""

    records: list[EventRecord]
    upto: int
