"""Events of an application: emitted, and told to those who subscribe."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from holdfast.engine.ids import new_id
from holdfast.engine.tracing import following
from holdfast.model.errors import ConfigurationError
from holdfast.model.events import Event, NewEvent, check_event
from holdfast.model.retry import RetryStrategy
from holdfast.model.subscription import Relay, Start, Subscription, subscribe, subscribe_relay
from holdfast.model.timing import Seconds
from holdfast.task import Home, transactions_of

Handler = TypeVar("Handler", bound=Callable[..., object])


class Emitting:
    """The part of an application that has to do with events."""

    def __init__(self) -> None:
        self._subscriptions: dict[tuple[str, str], Subscription] = {}

    @property
    def subscriptions(self) -> Mapping[tuple[str, str], Subscription]:
        """Who wants to be told of events, by group and topic."""
        return MappingProxyType(self._subscriptions)

    def on(
        self,
        topic: str,
        *,
        group: str,
        retry: RetryStrategy | None = None,
        timeout: Seconds | None = None,
        start: Start = "first",
    ) -> Callable[[Handler], Handler]:
        """Tells the function, plain or async, of every event of a topic: once for each `group`, in order.

        It takes an Event, after a Context if it wants one. Workers of the application share the groups: one
        at a time has each. What the function raises has the event tried again as `retry` says, by default
        five times; meanwhile the rest of its aggregate waits, and others go on. A new group begins with the
        first event that is kept, or only with the next one if `start` is "last".
        """
        # Annotations may be text that names classes of the function in which the handler is defined.
        frame = inspect.currentframe()
        names = frame.f_back.f_locals if frame and frame.f_back else {}

        def decorate(function: Handler) -> Handler:
            self._subscribe(
                subscribe(function, topic, group, retry=retry, timeout=timeout, start=start, names=names)
            )
            return function

        return decorate

    def relay(
        self, topics: Sequence[str], relay: Relay, *, group: str = "relay", start: Start = "first"
    ) -> None:
        """Hands on the events of these topics, in batches: `relay` returns once it has them for sure."""
        if isinstance(topics, str):
            raise ConfigurationError(f"give a list, for instance [{topics!a}]", setting="relay.topics")
        if not topics:
            raise ConfigurationError("name at least one topic", setting="relay.topics")
        for topic in topics:
            self._subscribe(subscribe_relay(relay, topic, group, start))

    def _subscribe(self, subscription: Subscription) -> None:
        key = subscription.group, subscription.topic
        known = self._subscriptions.get(key)
        if known is not None and _where(known) != _where(subscription):
            raise ConfigurationError(
                f"group {subscription.group!r} has a handler for {subscription.topic!r} already, and is told "
                "of each event once; give one of them another group",
                setting="on.group",
            )
        self._subscriptions[key] = subscription

    async def emit(self: Home, *events: Event[Any]) -> list[str]:
        """Stores events; when it returns they are stored durably, all of them. Gives their ids."""
        return await self.client.emit(_new(self, events))

    def emit_sync(self: Home, *events: Event[Any]) -> list[str]:
        """The same for blocking code."""
        return self.sync.emit(_new(self, events))

    async def emit_in(self: Home, connection: Any, *events: Event[Any]) -> list[str]:
        """Stores events in the caller's open transaction, which the caller commits or rolls back."""
        new = _new(self, events)
        transactions = transactions_of(self.store)
        with following(self.notices, events=new) as trip:
            await transactions.append_in(connection, self.settings.namespace, trip.events)
        return [event.id for event in new]

    def emit_in_sync(self: Home, connection: Any, *events: Event[Any]) -> list[str]:
        """The same on a blocking connection."""
        new = _new(self, events)
        transactions = transactions_of(self.store)
        with following(self.notices, events=new) as trip:
            transactions.append_in_sync(connection, self.settings.namespace, trip.events)
        return [event.id for event in new]


def _new(app: Home, events: Sequence[Event[Any]]) -> list[NewEvent]:
    return [check_event(event).stored(new_id(), app.settings.payload_bytes) for event in events]


def _where(subscription: Subscription) -> object:
    """The same for a function that is defined again by a reload of its module."""
    code = getattr(subscription.function, "__code__", None)
    if code is None:
        return subscription.relay or subscription.function
    return code.co_filename, code.co_firstlineno, code.co_qualname
