"""An event as a Kafka message, and back."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias, cast
from uuid import UUID, uuid5

from holdfast.model.errors import Undecodable
from holdfast.model.events import EventRecord
from holdfast.model.headers import carried, headers_carrying
from holdfast.model.names import known_id

ID = "holdfast-id"
TOPIC = "holdfast-topic"
TYPE = "holdfast-type"
VERSION = "holdfast-version"
AT = "holdfast-at"
OWN = "holdfast-headers"
TRACE = ("traceparent", "tracestate", "baggage")

Headers: TypeAlias = list[tuple[str, str | bytes | None]]

_SPACE = UUID("5b0e7a52-6f0f-4c0c-9a5e-3f1d2c8e4b17")
_LONGEST_NUMBER = 19


class KafkaMessage(Protocol):
    """What is read of a message: `confluent_kafka.Message` is one."""

    def topic(self) -> str | None: ...
    def partition(self) -> int | None: ...
    def offset(self) -> int | None: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def headers(self) -> Any: ...
    def timestamp(self) -> tuple[int, int]: ...
    def error(self) -> Any: ...


def key_of(event: EventRecord) -> bytes | None:
    return None if event.aggregate is None else event.aggregate.encode()


def headers_of(event: EventRecord) -> Headers:
    """Texts, all but the last: that is what came with the event, as it was stored.

    The trace that it belongs to is told by the names that others know, too.
    """
    headers: Headers = [
        (ID, event.id),
        (TOPIC, event.topic),
        (TYPE, event.type),
        (AT, str(event.at)),
    ]
    if event.version is not None:
        headers.append((VERSION, str(event.version)))
    headers += [(name, value) for name, value in carried(event.headers).items() if name in TRACE]
    if event.headers is not None:
        headers.append((OWN, event.headers))
    return headers


def event_of(message: KafkaMessage) -> EventRecord:
    """The event that a message carries, at position 0, with the id that it has always and everywhere.

    A message of another producer becomes an event too: its topic is Kafka's, its type "", its time the
    message's, and its id follows from topic, partition, offset and time, so that it is constant as well.
    A key that is not UTF-8 is escaped. Raises Undecodable for an error in the place of a message.
    """
    topic = message.topic()
    if message.error() is not None or topic is None:
        raise Undecodable("message", f"Kafka gave an error, not a message: {message.error()}")
    headers = _headers(message)
    key, at = message.key(), _number(headers.get(AT))
    return EventRecord(
        id=known_id(_text(headers.get(ID))) or _id_of_place(message),
        topic=_text(headers.get(TOPIC)) or topic,
        type=_text(headers.get(TYPE)) or "",
        data=message.value() or b"",
        position=0,
        at=max(0, message.timestamp()[1]) * 1000 if at is None else at,
        aggregate=None if key is None else key.decode(errors="backslashreplace"),
        version=_number(headers.get(VERSION)),
        headers=headers.get(OWN) or _trace(headers),
    )


def place_of(message: KafkaMessage) -> str:
    """Where the message is, for people."""
    return f"{message.topic()}[{message.partition()}] at offset {message.offset()}"


def scoped_id(event_id: str, scope: str) -> str:
    """Another constant id, for another use of the same event."""
    return str(uuid5(_SPACE, f"{scope}/{event_id}"))


def _id_of_place(message: KafkaMessage) -> str:
    # The time is in it because a topic that is removed and made again counts its offsets from 0 again.
    place = f"{message.topic()}/{message.partition()}/{message.offset()}/{message.timestamp()[1]}"
    return str(uuid5(_SPACE, place))


def _headers(message: KafkaMessage) -> dict[str, bytes]:
    """By name; of several of one name the last counts."""
    given = cast("dict[str, str | bytes | None]", dict(message.headers() or ())).items()
    return {
        name: value.encode() if isinstance(value, str) else value
        for name, value in given
        if value is not None
    }


def _trace(headers: dict[str, bytes]) -> bytes | None:
    """The trace that another producer's message belongs to, as an event of ours has it."""
    found = {name: headers[name].decode(errors="replace") for name in TRACE if name in headers}
    return headers_carrying(found) if found else None


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="backslashreplace")


def _number(value: bytes | None) -> int | None:
    """The number, or None for what is none: anybody may write to a topic."""
    return int(value) if value is not None and len(value) <= _LONGEST_NUMBER and value.isdigit() else None
