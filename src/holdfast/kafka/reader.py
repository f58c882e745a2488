"""Reads batches of messages from Kafka, on the one thread that touches the consumer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from holdfast.kafka.config import ClientConfig, log
from holdfast.model.errors import DeliveryFailed

SLICE = 0.1
"""So many seconds at most go by until a wait is given up."""

OWNED = {"enable.auto.commit": False, "enable.auto.offset.store": False}
DEFAULTS = {
    "client.id": "holdfast",
    # A group that is new, or was away for longer than Kafka keeps messages, begins with what there is.
    "auto.offset.reset": "earliest",
}

_COMMIT_AGAIN = 1.0


class Reader:
    """A member of a consumer group. What was read is committed when it is told to be done.

    Commits are not waited for. One that is lost costs a repeat, so it is sent again with the next one, or
    when there has been nothing to read for a while.
    """

    def __init__(self, config: ClientConfig, topics: Sequence[str], batch: int) -> None:
        self._config = config
        self._topics = list(topics)
        self._batch = batch
        self._stop = threading.Event()
        self._consumer: Consumer | None = None
        self._done: dict[tuple[str, int], int] = {}
        self._committed_at = 0.0

    def open(self) -> None:
        try:
            self._consumer = Consumer(
                self._config.settings(on_commit=self._on_commit, error_cb=self._on_trouble)
            )
            self._consumer.subscribe(self._topics, on_revoke=self._on_revoke)
            return
        except (KafkaException, TypeError, ValueError) as error:
            refused = self._config.refused(error)
        raise refused

    def stop(self) -> None:
        """Ends a `read` that waits. May be called from any thread."""
        self._stop.set()

    def read(self) -> list[Message]:
        """The next messages, in order for each partition; none when it was stopped."""
        assert self._consumer is not None
        try:
            while not self._stop.is_set():
                first = self._consumer.poll(SLICE)
                if first is None:
                    self._commit_again()
                    continue
                # What else is here already: waiting for a full batch would delay the first of it.
                more = self._consumer.consume(self._batch - 1, 0) if self._batch > 1 else []
                if messages := [message for message in (first, *more) if self._is_message(message)]:
                    return messages
        except KafkaException as error:
            raise DeliveryFailed(f"cannot go on reading from Kafka: {self._config.clean(error)}") from None
        return []

    def done(self, messages: Iterable[Message]) -> None:
        """Commits that these are dealt with, and all before them."""
        assert self._consumer is not None
        ours = {(each.topic, each.partition) for each in self._consumer.assignment()}
        for message in messages:
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            assert topic is not None
            assert partition is not None
            assert offset is not None
            if (topic, partition) in ours:  # otherwise another member has it by now, and may be further on
                self._done[topic, partition] = offset + 1
        self._commit(self._done)

    def close(self) -> None:
        """Commits what is done, leaves the group, and disconnects."""
        if self._consumer is None:
            return
        self._commit(self._done)
        consumer, self._consumer = self._consumer, None
        consumer.close()

    def _is_message(self, message: Message) -> bool:
        error = message.error()
        if error is None:
            return True
        if error.fatal():
            raise KafkaException(error)
        self._on_trouble(error)
        return False

    def _commit_again(self) -> None:
        if self._done and time.monotonic() - self._committed_at >= _COMMIT_AGAIN:
            self._commit(self._done)

    def _commit(self, done: dict[tuple[str, int], int]) -> None:
        if not done or self._consumer is None:
            return
        self._committed_at = time.monotonic()
        offsets = [TopicPartition(topic, partition, offset) for (topic, partition), offset in done.items()]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException as error:
            self._on_trouble(error)

    def _on_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        if error is not None:
            self._on_trouble(error)
            return
        for each in partitions:
            place = each.topic, each.partition
            if each.error is None and self._done.get(place) == each.offset:
                del self._done[place]

    def _on_revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        places = [(each.topic, each.partition) for each in partitions]
        self._commit({place: self._done[place] for place in places if place in self._done})
        for place in places:
            self._done.pop(place, None)

    def _on_trouble(self, error: KafkaError | KafkaException) -> None:
        """Kafka's library goes on by itself; this says why nothing comes."""
        log.warning(
            "kafka consumer in trouble",
            extra={"fields": {"error": self._config.clean(error), "servers": self._config.servers}},
        )
