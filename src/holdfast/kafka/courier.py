"""Takes batches of events to Kafka, on the one thread that touches the producer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

from confluent_kafka import KafkaError, KafkaException, Producer

from holdfast.kafka.config import ClientConfig
from holdfast.kafka.message import Headers, headers_of, key_of
from holdfast.model.errors import DeliveryFailed, HoldfastError, Undeliverable
from holdfast.model.events import EventRecord

_Place: TypeAlias = tuple[str, str | None]

SLICE = 0.1
"""So many seconds at most go by until a wait is given up."""

OWNED = {
    "acks": "all",
    "enable.idempotence": True,
    # Without this, what follows a refused request of a partition is sent all the same, and overtakes it.
    "enable.gapless.guarantee": True,
    # The courier itself gives up, on a whole batch; one message must not be dropped before its successor.
    "message.timeout.ms": 0,
}
DEFAULTS = {
    "client.id": "holdfast",
    # As producers in Java: one key, one partition, whoever writes; and an empty key is a key.
    "partitioner": "murmur2_random",
}

_FOR_GOOD = frozenset(
    {
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.POLICY_VIOLATION,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)
_LAST_WORDS = 5
_MOST_KNOWN = 10_000
_IDLE = 600.0
"""Seconds; a broker forgets a producer that has been idle for a day."""
_PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})  # noqa: SLF001 -- so it names them


class _Batch:
    """Events on their way, and what was heard of each."""

    def __init__(self, events: Sequence[EventRecord]) -> None:
        self.events = events
        self.queued = 0
        self.heard = 0
        self.is_broken = False
        self.error: KafkaError | None = None
        self._missing = dict(enumerate(events))
        self._guilty: int | None = None

    def heard_of(self, index: int, error: KafkaError | None, _message: Any) -> None:
        self.heard += 1
        if error is None:
            del self._missing[index]
        elif error.code() not in _PURGED:
            self.is_broken = True
            self.failed(error, index)

    def failed(self, error: KafkaError, index: int | None = None) -> None:
        """The cause is the error of the earliest event that has one; others follow from it."""
        if self._guilty is None or (index is not None and index < self._guilty):
            self.error, self._guilty = error, index

    @property
    def missing(self) -> list[EventRecord]:
        """The events that were not acknowledged, in order."""
        return list(self._missing.values())

    @property
    def arrived(self) -> list[str]:
        """The ids of the events that were acknowledged."""
        return [event.id for index, event in enumerate(self.events) if index not in self._missing]

    @property
    def is_refused(self) -> bool:
        """Whether the same would be refused again, for ever."""
        return self.error is not None and self.error.code() in _FOR_GOOD


class Courier:
    """Sends one batch at a time. Between batches nothing is on its way."""

    def __init__(self, config: ClientConfig, topic_of: Callable[[str], str], timeout: float) -> None:
        self._config = config
        self._topic_of = topic_of
        self._timeout = timeout
        self._producer: Producer | None = None
        self._trouble: str | None = None
        self._known: set[_Place] = set()
        self._used_at = 0.0

    def send(self, events: Sequence[EventRecord], stop: threading.Event) -> None:
        """Returns when all are acknowledged. Raises if not, and then nothing is on its way any more.

        If one of them is Undeliverable, all before it are acknowledged.
        """
        now = time.monotonic()
        if now - self._used_at > _IDLE or len(self._known) > _MOST_KNOWN:
            self._known.clear()
        self._used_at = now
        arrived: set[str] = set()
        for wave in self._waves(events):
            batch = self._try(wave, stop)
            arrived.update(batch.arrived)
            if batch.is_refused:
                # Events travel many to a request, which is refused as one: alone, each answers for itself.
                return self._send_singly([event for event in events if event.id not in arrived], stop)
            if batch.missing:
                raise self._error(batch)
        return None

    def close(self) -> None:
        self._discard()

    def _send_singly(self, events: Sequence[EventRecord], stop: threading.Event) -> None:
        for event in events:
            batch = self._try([event], stop)
            if batch.missing:
                raise self._error(batch)

    def _waves(self, events: Sequence[EventRecord]) -> list[list[EventRecord]]:
        """The events in order for each aggregate, of which the first goes alone unless it is known.

        A broker refuses what follows a refused request of a producer only in a partition to which that
        producer has written before. So nothing may follow the first event until it has arrived.
        """
        first: list[EventRecord] = []
        rest: list[EventRecord] = []
        begun: set[_Place] = set()
        for event in events:
            place = event.topic, event.aggregate
            is_next = place in begun and event.aggregate is not None and place not in self._known
            (rest if is_next else first).append(event)
            begun.add(place)
        return [first, rest] if rest else [first]

    def _try(self, events: Sequence[EventRecord], stop: threading.Event) -> _Batch:
        batch = _Batch(events)
        messages = [(self._topic_of(event.topic), key_of(event), headers_of(event)) for event in events]
        deadline = time.monotonic() + self._timeout
        self._trouble = None
        if self._producer is None:
            self._producer = self._made()
        is_reusable = False
        try:
            self._queue(self._producer, batch, messages, stop, deadline)
            while batch.heard < batch.queued and not _is_over(batch, stop, deadline):
                self._producer.flush(SLICE)
            is_reusable = batch.heard == batch.queued and not batch.is_broken
            is_reusable = is_reusable and (batch.error is None or batch.is_refused)
            if not batch.missing:
                self._known.update((event.topic, event.aggregate) for event in events)
        except KafkaException as error:  # a fatal one, of the producer as a whole
            batch.failed(error.args[0])
        finally:
            if not is_reusable:
                self._discard()
        return batch

    def _queue(
        self,
        producer: Producer,
        batch: _Batch,
        messages: Sequence[tuple[str, bytes | None, Headers]],
        stop: threading.Event,
        deadline: float,
    ) -> None:
        """Hands over the events, in order, up to one that is not taken."""
        for index, (topic, key, headers) in enumerate(messages):
            data, told = batch.events[index].data, partial(batch.heard_of, index)
            while not _is_over(batch, stop, deadline):
                try:
                    producer.produce(topic, data, key, headers=headers, on_delivery=told)
                except BufferError:
                    producer.poll(SLICE)
                except KafkaException as error:
                    batch.failed(error.args[0], index)
                    return
                else:
                    batch.queued += 1
                    break
            else:
                return

    def _made(self) -> Producer:
        try:
            return Producer(self._config.settings(error_cb=self._heard_of_trouble))
        except (KafkaException, TypeError, ValueError) as error:
            refused = self._config.refused(error)
        raise refused

    def _heard_of_trouble(self, error: KafkaError) -> None:
        self._trouble = error.str()

    def _discard(self) -> None:
        """Drops the producer with all that it still holds: sent later, that would come after its repeat."""
        self._known.clear()
        producer, self._producer = self._producer, None
        if producer is None:
            return
        with suppress(KafkaException):
            producer.purge()
        for _ in range(_LAST_WORDS):
            with suppress(KafkaException):  # it tells again that it is broken
                if producer.flush(SLICE) == 0:
                    break
        producer.close()

    def _error(self, batch: _Batch) -> HoldfastError:
        first = batch.missing[0]
        if batch.is_refused and batch.error is not None:
            return Undeliverable(
                first.id,
                f"Kafka will never take it for topic {self._topic_of(first.topic)} as it is: "
                f"{self._config.clean(batch.error.str())}; those behind it wait until it is skipped, or "
                "Kafka's limits are changed",
            )
        why = (
            self._trouble if batch.error is None else batch.error.str()
        ) or f"no answer in {self._timeout:g} s"
        return DeliveryFailed(
            f"Kafka did not acknowledge event {first.id} of topic {first.topic}: {self._config.clean(why)}"
        )


def _is_over(batch: _Batch, stop: threading.Event, deadline: float) -> bool:
    return batch.is_broken or stop.is_set() or time.monotonic() >= deadline
