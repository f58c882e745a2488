"""What a message says of its event, whoever wrote it."""

from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, KafkaError, Message

from holdfast.kafka import event_of
from holdfast.kafka.message import headers_of
from holdfast.model.errors import Undecodable
from holdfast.model.headers import carried


def message(**fields: Any) -> Message:
    given: dict[str, Any] = {
        "topic": "orders",
        "partition": 1,
        "offset": 7,
        "value": b"{}",
        "timestamp": (TIMESTAMP_CREATE_TIME, 1_700_000_000_123),
    }
    return Message(**given | fields)


def test_a_message_of_another_producer_is_an_event_of_its_topic() -> None:
    event = event_of(message(key=b"order-1", headers=[("theirs", b"1")]))
    assert (event.topic, event.type, event.aggregate, event.data) == ("orders", "", "order-1", b"{}")
    assert (event.version, event.headers, event.position) == (None, None, 0)
    assert event.at == 1_700_000_000_123_000
    assert event.id == event_of(message()).id
    assert UUID(event.id).version == 5


@pytest.mark.parametrize(
    "other",
    [
        {"topic": "others"},
        {"partition": 2},
        {"offset": 8},
        {"timestamp": (TIMESTAMP_CREATE_TIME, 1_700_000_000_124)},
    ],
)
def test_its_id_is_that_of_its_place_and_time(other: dict[str, Any]) -> None:
    assert event_of(message(**other)).id != event_of(message()).id


@pytest.mark.parametrize(
    "headers",
    [
        [("holdfast-id", b"not a UUID"), ("holdfast-at", b"yesterday"), ("holdfast-version", b"-1")],
        [("holdfast-id", b"\xff\xfe"), ("holdfast-at", b"9" * 5_000), ("holdfast-version", b"1_0")],
        [("holdfast-id", None), ("holdfast-at", None), ("holdfast-version", b"")],
    ],
)
def test_headers_that_make_no_sense_are_as_none(headers: list[tuple[str, bytes | None]]) -> None:
    assert event_of(message(headers=headers)) == event_of(message())


def test_an_id_is_read_in_its_canonical_form() -> None:
    written = "01234567-89AB-7DEF-8123-456789ABCDEF"
    assert event_of(message(headers=[("holdfast-id", written.encode())])).id == written.lower()


def test_a_key_that_is_no_text_is_escaped_and_an_empty_message_has_no_data() -> None:
    event = event_of(message(key=b"\xff", value=None))
    assert (event.aggregate, event.data) == ("\\xff", b"")


def test_an_error_is_no_message() -> None:
    with pytest.raises(Undecodable, match="message: "):
        event_of(message(error=KafkaError(KafkaError._PARTITION_EOF)))


def test_the_trace_travels_by_the_names_that_others_know() -> None:
    given = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "baggage": "a=1"}
    foreign = event_of(message(headers=[(name, value.encode()) for name, value in given.items()]))
    assert carried(foreign.headers) == given
    sent = dict(headers_of(foreign))
    assert {name: sent[name] for name in given} == given
    assert event_of(message(headers=list(sent.items()))).headers == foreign.headers
