"""Subscriptions: what users write, and what is refused when they write it."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from holdfast import Context, Event, Fixed
from holdfast.model.errors import ConfigurationError, Undecodable
from holdfast.model.events import EventRecord
from holdfast.model.subscription import RETRY, subscribe, subscribe_relay


class Order(msgspec.Struct):
    number: int


def record(data: bytes) -> EventRecord:
    return EventRecord(
        id="i", topic="t", type="x", data=data, position=7, at=1_000_000, aggregate="a", version=3
    )


async def test_a_handler_is_read_from_its_signature() -> None:
    async def handle(ctx: Context, event: Event[Order]) -> None: ...

    def plain(event: Event) -> None: ...

    def bare(event) -> None: ...  # type: ignore[no-untyped-def]

    made = subscribe(handle, "orders", "billing", retry=Fixed(1), timeout=2)
    assert (made.is_async, made.takes_context, made.timeout, made.start) == (True, True, 2_000_000, "first")
    assert made.retry == Fixed(1)
    assert made.name == "billing orders"
    for function in (plain, bare):
        other = subscribe(function, "orders", "billing")
        assert (other.is_async, other.takes_context, other.timeout) == (False, False, None)
        assert other.retry is RETRY
        assert other.event(record(b'{"any":[1]}')).data == {"any": [1]}


async def test_an_event_is_told_as_its_handler_wants_it() -> None:
    async def handle(event: Event[Order]) -> None: ...

    made = subscribe(handle, "orders", "billing")
    event = made.event(record(b'{"number":1}'))
    assert event.data == Order(1)
    assert (event.id, event.topic, event.type, event.aggregate) == ("i", "t", "x", "a")
    assert (event.version, event.position) == (3, 7)
    assert event.at is not None
    assert event.at.timestamp() == 1.0


@pytest.mark.parametrize("data", [b"", b"{", b'{"number":"x"}', b"null", b"\xff"])
async def test_data_of_another_type_cannot_be_told(data: bytes) -> None:
    async def handle(event: Event[Order]) -> None: ...

    with pytest.raises(Undecodable, match="data"):
        subscribe(handle, "orders", "billing").event(record(data))


def test_annotations_may_be_text_that_names_what_is_local() -> None:
    class Local(msgspec.Struct):
        number: int

    def handle(event: "Event[Local]") -> None: ...

    made = subscribe(handle, "t", "g", names=locals())
    assert made.event(record(b'{"number":5}')).data == Local(5)


def nothing() -> None: ...


def two(event: Event, other: int) -> None: ...


def context_alone(ctx: Context) -> None: ...


def context_last(event: Event, ctx: Context) -> None: ...


def no_event(event: int) -> None: ...


def unknown(event: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821


def unreadable(event: Event[type]) -> None: ...


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (nothing, "takes nothing"),
        (two, "takes event, other"),
        (context_alone, "takes ctx"),
        (context_last, "takes event, ctx"),
        (no_event, "annotate event as Event"),
        (unknown, "cannot be resolved"),
        (unreadable, "cannot be read from JSON"),
    ],
)
def test_a_function_that_cannot_be_a_handler_is_refused_by_name(function: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as error:
        subscribe(function, "orders", "billing")
    assert function.__name__ in str(error.value)


@pytest.mark.parametrize(
    ("given", "setting"),
    [
        ({"topic": "no good"}, "on.topic"),
        ({"group": ""}, "on.group"),
        ({"group": "a:b"}, "on.group"),
        ({"timeout": 0}, "on.timeout"),
        ({"timeout": -1}, "on.timeout"),
        ({"start": "middle"}, "on.start"),
        ({"retry": 3}, "on.retry"),
        ({"retry": Fixed}, "on.retry"),
        ({"function": "handle"}, "on"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, Any], setting: str) -> None:
    def handle(event: Event) -> None: ...

    right: dict[str, Any] = {"function": handle, "topic": "t", "group": "g"}
    with pytest.raises(ConfigurationError) as error:
        subscribe(**{**right, **given})
    assert error.value.setting == setting


def test_a_relay_reads_no_data() -> None:
    async def relay(events: Sequence[EventRecord]) -> None: ...

    made = subscribe_relay(relay, "orders", "kafka", "last")
    assert (made.relay, made.function, made.start) == (relay, None, "last")
    with pytest.raises(Undecodable):
        made.event(record(b"1"))
    with pytest.raises(ConfigurationError) as error:
        subscribe_relay(relay, "no good", "kafka")
    assert error.value.setting == "relay.topic"


def test_a_relay_that_cannot_be_awaited_is_refused() -> None:
    async def relay(events: Sequence[EventRecord]) -> None: ...

    def plain(events: Sequence[EventRecord]) -> None: ...

    with pytest.raises(ConfigurationError, match="plain is not `async`"):
        subscribe_relay(plain, "orders", "kafka")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError) as error:
        subscribe_relay(relay, "orders", "kafka", "middle")  # type: ignore[arg-type]
    assert error.value.setting == "relay.start"
