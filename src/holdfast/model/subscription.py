"""Who wants to be told of events: a handler, by group and topic, with what applies to its failures."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from holdfast.model.errors import ConfigurationError, InvalidJob, Undecodable, Undeliverable
from holdfast.model.events import Event, EventRecord
from holdfast.model.names import check_name
from holdfast.model.options import check_timeout
from holdfast.model.payload import decode, decoder
from holdfast.model.retry import Exponential, RetryStrategy, check_retry
from holdfast.model.sealed import unreadable
from holdfast.model.signature import Function, is_context
from holdfast.model.timing import Seconds

Start: TypeAlias = Literal["first", "last"]
Relay: TypeAlias = Callable[[Sequence[EventRecord]], Awaitable[None]]

RETRY = Exponential(max_retries=5)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Subscription:
    """A handler of one group for one topic.

    `start` is where a group begins that has never been: at the first event that is kept, or behind the last.
    One with a `relay` is given many events at a time, as they are stored.
    """

    group: str
    topic: str
    function: Function | None = None
    relay: Relay | None = None
    takes_context: bool = False
    is_async: bool = True
    data: msgspec.json.Decoder[Any] | None = None
    retry: RetryStrategy = RETRY
    timeout: int | None = None
    start: Start = "first"

    @property
    def name(self) -> str:
        """Group and topic as one name; the space is in neither."""
        return f"{self.group} {self.topic}"

    def event(self, record: EventRecord) -> Event[Any]:
        """The event as its handler wants it. Undecodable if its data are not of the annotated type."""
        if self.data is None:
            raise Undecodable("data", "nobody reads it here")
        return Event.from_record(record, decode(self.data, record.data, "data"))


def subscribe(
    function: Function,
    topic: str,
    group: str,
    *,
    retry: RetryStrategy | None = None,
    timeout: Seconds | None = None,
    start: Start = "first",
    names: Mapping[str, Any] | None = None,
) -> Subscription:
    """A subscription from what users write; ConfigurationError names what is wrong."""
    if not inspect.isroutine(function):
        raise ConfigurationError(
            f"{function!r} is not a function; a handler of events is one, and may `ctx.enqueue` tasks",
            setting="on",
        )
    takes_context, kind = _parameters(function, names)
    try:
        return Subscription(
            group=check_name(group, "group"),
            topic=check_name(topic, "topic"),
            function=function,
            takes_context=takes_context,
            is_async=inspect.iscoroutinefunction(function),
            data=decoder(kind),
            retry=RETRY if retry is None else check_retry(retry),
            timeout=check_timeout(timeout),
            start=_check_start(start),
        )
    except InvalidJob as error:
        raise ConfigurationError(error.problem, setting=f"on.{error.field}") from None
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{function.__qualname__}: data of this type cannot be read from JSON: {error}", setting="on"
        ) from None


def subscribe_relay(relay: Relay, topic: str, group: str, start: Start = "first") -> Subscription:
    """The same for a function of many events at a time."""
    if inspect.isroutine(relay) and not inspect.iscoroutinefunction(relay):
        raise ConfigurationError(
            f"{relay.__qualname__} is not `async`; a relay is awaited until the other side has the events",
            setting="relay",
        )
    try:
        return Subscription(
            group=check_name(group, "group"),
            topic=check_name(topic, "topic"),
            relay=relay,
            start=_check_start(start),
        )
    except InvalidJob as error:
        raise ConfigurationError(error.problem, setting=f"relay.{error.field}") from None


def check_readable(events: Sequence[EventRecord]) -> None:
    """Undeliverable for an event whose data this process cannot decrypt, and so must not hand on."""
    for event in events:
        why = unreadable(event.data)
        if why is not None:
            raise Undeliverable(event.id, f"its data cannot be read: {why}")


def _check_start(start: Start) -> Start:
    if start not in get_args(Start):
        raise InvalidJob("start", f"{start!r} is not one of first, last")
    return start


def _parameters(function: Function, names: Mapping[str, Any] | None) -> tuple[bool, Any]:
    """Whether it takes a context first, and the type of the event's data."""
    where = f"{function.__module__}.{function.__qualname__}"
    try:
        hints = typing.get_type_hints(function, localns=dict(names or {}), include_extras=True)
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        raise ConfigurationError(
            f"{where}: an annotation cannot be resolved: {error}", setting="on"
        ) from None
    parameters = [*inspect.signature(function).parameters]
    takes_context = bool(parameters) and is_context(hints.get(parameters[0]))
    rest = parameters[1:] if takes_context else parameters
    if len(rest) != 1:
        raise ConfigurationError(
            f"{where} takes {', '.join(parameters) or 'nothing'}; a handler of events takes one event, "
            "after a Context if it wants one",
            setting="on",
        )
    annotation = hints.get(rest[0], Event)
    if (typing.get_origin(annotation) or annotation) is not Event:
        raise ConfigurationError(f"{where}: annotate {rest[0]} as Event or Event[...]", setting="on")
    return takes_context, next(iter(typing.get_args(annotation)), Any)
