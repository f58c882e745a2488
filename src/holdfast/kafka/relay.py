"""Events to Kafka: at least once, in order for each aggregate, under a constant id."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeAlias

from holdfast.kafka.calls import CallThread, finished
from holdfast.kafka.config import ClientConfig
from holdfast.kafka.courier import DEFAULTS, OWNED, Courier
from holdfast.model.errors import ConfigurationError
from holdfast.model.events import EventRecord
from holdfast.model.timing import Seconds, seconds

TopicMap: TypeAlias = str | Mapping[str, str] | Callable[[str], str]

_SHORTEST = 1.0
"""A new producer needs half a second of its own before it sends."""
_KAFKA_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)


class KafkaRelay:
    """Sends batches of events to Kafka, through one idempotent producer.

    `config` is the brokers, or everything that librdkafka can be told; what order and durability rest on
    cannot be changed. `topic` gives the Kafka topic of an event's topic: one for all, a mapping, or a
    function; a topic that a mapping does not name, or any if there is none, keeps its name. The key is the
    aggregate, so that its events are in one partition, in order, as long as the topic's partitions are not
    added to. A batch that Kafka has not acknowledged within `timeout` has failed.

    One relay may serve several topics; their batches are sent one after the other.
    """

    def __init__(
        self,
        config: str | Mapping[str, Any],
        *,
        topic: TopicMap | None = None,
        timeout: Seconds = 30,
    ) -> None:
        self._limit = seconds(timeout)
        if not self._limit >= _SHORTEST:
            raise ConfigurationError(f"{timeout!r} is less than {_SHORTEST:g} s", setting="timeout")
        if "transactional.id" in (config if isinstance(config, Mapping) else ()):
            raise ConfigurationError(
                "a relay does not use transactions; leave it out", setting="transactional.id"
            )
        self._config = ClientConfig(config, owned=OWNED, defaults=DEFAULTS)
        self._topic = topic
        self._courier = Courier(self._config, self.topic_of, self._limit)
        self._thread = CallThread("holdfast-kafka-relay")
        self._stops: set[threading.Event] = set()

    def __repr__(self) -> str:
        return f"KafkaRelay({self._config.servers!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def handle(self, events: Sequence[EventRecord]) -> None:
        """Returns when Kafka has acknowledged every event of the batch.

        Raises DeliveryFailed if it has not. Then some may have arrived nevertheless, but none is on its way
        any more: hand over the same batch again. Raises Undeliverable for an event that Kafka will never
        take; all before it have arrived, of those behind it perhaps some of other aggregates. When this is
        cancelled, it ends as soon as nothing is on its way.
        """
        if not events:
            return
        stop = threading.Event()
        self._stops.add(stop)
        work = asyncio.ensure_future(self._thread.call(self._courier.send, list(events), stop))
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            stop.set()
            await finished(work)
            raise
        finally:
            self._stops.discard(stop)

    async def close(self, timeout: Seconds = 5) -> None:
        """Lets batches that are on their way arrive within the time given, drops what is left, disconnects.

        The next batch would connect again.
        """
        closing = asyncio.ensure_future(self._thread.call(self._courier.close))
        await asyncio.wait([closing], timeout=seconds(timeout))
        for stop in self._stops:
            stop.set()
        await asyncio.shield(closing)
        self._thread.stop()

    def topic_of(self, topic: str) -> str:
        """The Kafka topic for an event's topic."""
        match self._topic:
            case None:
                chosen = topic
            case str(one):
                chosen = one
            case Mapping():
                chosen = self._topic.get(topic, topic)
            case _:
                chosen = self._topic(topic)
        if not _KAFKA_TOPIC.fullmatch(chosen) or chosen in {".", ".."}:
            raise ConfigurationError(
                f"{chosen!r}, for events of topic {topic!r}, is no name for a Kafka topic: 1 to 249 "
                "ASCII letters, digits and . _ -; give the relay a topic or a mapping",
                setting="topic",
            )
        return chosen
