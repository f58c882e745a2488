"""Events to send, and a look at what stands in a topic."""

from collections.abc import Iterable
from itertools import count
from typing import Any
from uuid import UUID

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from holdfast.kafka import event_of
from holdfast.model.events import EventRecord
from tests.kafka.cluster import Cluster

QUICK = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 50, "retry.backoff.ms": 10}
"""What makes a client come back soon, where a test lets the brokers fail."""

_numbers = count(1)


def told(aggregate: str | None = None, **fields: Any) -> EventRecord:
    """An event; its data is its number, which grows."""
    number = next(_numbers)
    given: dict[str, Any] = {
        "id": str(UUID(int=number << 64)),
        "topic": "orders",
        "type": "placed",
        "data": str(number).encode(),
        "position": number,
        "at": 1_700_000_000_000_000 + number,
        "aggregate": aggregate,
        "version": None if aggregate is None else number,
    }
    return EventRecord(**given | fields)


def told_of(keys: int, each: int) -> list[EventRecord]:
    """Events of several aggregates, in turn."""
    return [told(f"order-{key}") for _ in range(each) for key in range(keys)]


def config(cluster: Cluster, **settings: Any) -> dict[str, Any]:
    """With dots for underscores."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return {"bootstrap.servers": cluster.servers, **QUICK, **named}


def written(cluster: Cluster, topic: str = "orders") -> list[Message]:
    """Every message of the topic, partition by partition, up to the end that it has now."""
    reader = Consumer(
        {
            "bootstrap.servers": cluster.servers,
            "group.id": "looking",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        partitions = reader.list_topics(topic, 10).topics[topic].partitions
        reader.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        found: dict[int, list[Message]] = {number: [] for number in partitions}
        ends: set[int] = set()
        while len(ends) < len(partitions):
            message = reader.poll(10)
            assert message is not None, "no end of the topic"
            error, partition = message.error(), message.partition()
            assert partition is not None
            if error is None:
                found[partition].append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                ends.add(partition)
            else:
                raise KafkaException(error)
        return [message for number in sorted(found) for message in found[number]]
    finally:
        reader.close()


def events_in(cluster: Cluster, topic: str = "orders") -> list[EventRecord]:
    return [event_of(message) for message in written(cluster, topic)]


def committed(cluster: Cluster, group: str, topic: str = "orders") -> int:
    """How many messages the group is done with."""
    asking = Consumer({"bootstrap.servers": cluster.servers, "group.id": group})
    try:
        partitions = asking.list_topics(topic, 10).topics[topic].partitions
        offsets = asking.committed([TopicPartition(topic, number) for number in partitions], 10)
        return sum(max(0, each.offset) for each in offsets)
    finally:
        asking.close()


def by_key(events: Iterable[EventRecord]) -> dict[str | None, list[str]]:
    """The ids for each aggregate, in order; of repeats only the first."""
    ids: dict[str | None, dict[str, None]] = {}
    for event in events:
        ids.setdefault(event.aggregate, {})[event.id] = None
    return {key: list(found) for key, found in ids.items()}


def ids(events: Iterable[EventRecord]) -> list[str]:
    return [event.id for event in events]
