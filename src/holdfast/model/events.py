"""Events: what happened, kept in order for whoever wants to know, and delivered at least once."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, cast

import msgspec

from holdfast.model.errors import InvalidEvent, InvalidJob
from holdfast.model.names import check_id, check_name
from holdfast.model.payload import PAYLOAD_LIMIT, encode
from holdfast.model.timing import moment

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    D = TypeVar("D", default=Any)
else:
    from typing import TypeVar

    D = TypeVar("D")

LONGEST_AGGREGATE = 200


class Event(msgspec.Struct, Generic[D], frozen=True, kw_only=True):
    """Something that happened: `data`, which is JSON, of a type, in a topic.

    Events of one `aggregate` of a topic are told in their order. Whoever emits one gives it no more than
    that, or an `id`, so that it is stored once however often it is emitted. As told to a consumer it has
    also its `version`, counted for each aggregate, its `position` among all, and when it was recorded, `at`.
    """

    topic: str
    type: str
    data: D
    aggregate: str | None = None
    id: str | None = None
    version: int | None = None
    position: int | None = None
    at: datetime | None = None

    def stored(self, drawn: str, limit: int = PAYLOAD_LIMIT, headers: bytes | None = None) -> NewEvent:
        """The event to be stored, by the `drawn` id unless it has one; InvalidEvent says what is wrong."""
        try:
            return NewEvent(
                id=drawn if self.id is None else check_id(self.id),
                topic=check_name(self.topic, "topic"),
                type=check_name(self.type, "type"),
                data=encode(self.data, limit=limit, field="data"),
                aggregate=None if self.aggregate is None else check_aggregate(self.aggregate),
                headers=headers,
            )
        except InvalidJob as error:
            raise InvalidEvent(error.field, error.problem) from None

    @classmethod
    def from_record(cls, record: EventRecord, data: D) -> Event[D]:
        return cls(
            topic=record.topic,
            type=record.type,
            data=data,
            aggregate=record.aggregate,
            id=record.id,
            version=record.version,
            position=record.position,
            at=moment(record.at),
        )


def check_aggregate(value: object) -> str:
    """The name itself: text that every store can keep. InvalidJob otherwise."""
    if isinstance(value, str) and value.isprintable() and 1 <= len(value) <= LONGEST_AGGREGATE:
        return value
    raise InvalidJob(
        "aggregate", f"{ascii(value)[:60]} is not a text of 1 to {LONGEST_AGGREGATE} printable characters"
    )


def check_event(value: object) -> Event[Any]:
    """The event itself, or InvalidEvent for what is none."""
    given: Any = value
    if isinstance(value, Event):
        return cast("Event[Any]", given)
    is_many = isinstance(value, list | tuple)
    wanted = "each by itself, as in emit(*events)" if is_many else "Event(topic=..., type=..., data=...)"
    raise InvalidEvent("event", f"{ascii(value)[:60]} is not an event; give {wanted}")


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


class EventPage(msgspec.Struct, kw_only=True):
    """Events in the order of their positions, and the position `upto` which there are no others like them."""

    records: list[EventRecord]
    upto: int
