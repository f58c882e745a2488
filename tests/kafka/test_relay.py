"""Events reach Kafka: at least once, in order for each aggregate, under a constant id."""

import asyncio
from collections.abc import Sequence

import msgspec
import pytest
from confluent_kafka import KafkaError, Producer

from holdfast.kafka import KafkaRelay
from holdfast.kafka.relay import TopicMap
from holdfast.model.errors import ConfigurationError, DeliveryFailed
from holdfast.model.events import EventRecord
from tests.chaos.waiting import until, until_async
from tests.kafka.cluster import PRODUCE, Cluster
from tests.kafka.support import by_key, config, events_in, ids, told, told_of, written

PASSING = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._TRANSPORT,
)


async def test_a_message_carries_all_of_its_event(cluster: Cluster) -> None:
    events = [told("order-1", headers=b"\x00trace"), told("Ü 2"), told(None, type="closed")]
    async with KafkaRelay(cluster.servers) as relay:
        await relay.handle(events)
    read = sorted(events_in(cluster), key=lambda event: event.at)
    assert read == [msgspec.structs.replace(event, position=0) for event in events]
    keys = {message.key() for message in written(cluster)}
    assert keys == {b"order-1", "Ü 2".encode(), None}


async def test_events_of_an_aggregate_stand_in_their_order_in_one_partition(cluster: Cluster) -> None:
    events = told_of(keys=8, each=50)
    async with KafkaRelay(cluster.servers) as relay:
        for start in range(0, len(events), 100):
            await relay.handle(events[start : start + 100])
    assert by_key(events_in(cluster)) == by_key(events)
    partitions: dict[bytes | None, set[int | None]] = {}
    for message in written(cluster):
        partitions.setdefault(message.key(), set()).add(message.partition())
    assert {len(found) for found in partitions.values()} == {1}
    assert len({next(iter(found)) for found in partitions.values()}) > 1


async def test_a_key_goes_where_a_java_producer_would_put_it(cluster: Cluster) -> None:
    async with KafkaRelay(cluster.servers) as relay:
        await relay.handle([told(f"order-{key}") for key in range(20)])
    other = Producer({"bootstrap.servers": cluster.servers, "partitioner": "murmur2_random"})
    for key in range(20):
        other.produce("orders", b"theirs", f"order-{key}".encode())
    other.flush(10)
    places = {(message.key(), message.partition()) for message in written(cluster)}
    assert len(places) == 20


@pytest.mark.parametrize("error", PASSING)
async def test_errors_that_pass_are_outlived_with_each_event_once(cluster: Cluster, error: int) -> None:
    events = told_of(keys=4, each=10)
    async with KafkaRelay(config(cluster)) as relay:
        await relay.handle(events[:4])
        cluster.fail(PRODUCE, [error] * 6)
        await relay.handle(events[4:])
    arrived = events_in(cluster)
    assert by_key(arrived) == by_key(events)
    # The mock forgets sequence numbers: what it took before it hung up on another request is there twice.
    assert error == KafkaError._TRANSPORT or sorted(ids(arrived)) == sorted(ids(events))


async def test_brokers_that_are_away_for_a_while_lose_nothing(cluster: Cluster) -> None:
    events = told_of(keys=4, each=10)
    async with KafkaRelay(config(cluster)) as relay:
        await relay.handle(events[:20])
        cluster.down()
        sending = asyncio.ensure_future(relay.handle(events[20:]))
        await until(lambda: relay._courier._trouble, "the relay notices")
        cluster.up()
        await sending
    arrived = events_in(cluster)
    assert by_key(arrived) == by_key(events)
    assert sorted(ids(arrived)) == sorted(ids(events))


async def test_brokers_that_are_away_for_too_long_fail_the_batch_and_its_repeat_is_in_order(
    cluster: Cluster,
) -> None:
    events = told_of(keys=4, each=10)
    relay = KafkaRelay(config(cluster), timeout=1)
    async with relay:
        await relay.handle(events[:20])
        cluster.down()
        for _ in range(2):
            with pytest.raises(DeliveryFailed, match=rf"event {events[20].id} of topic orders"):
                await relay.handle(events[20:])
        cluster.up()
        await until_delivered(relay, events[20:])
    assert by_key(events_in(cluster)) == by_key(events)


async def test_answers_that_come_too_late_leave_repeats_but_no_disorder(cluster: Cluster) -> None:
    events = told_of(keys=4, each=10)
    async with KafkaRelay(config(cluster), timeout=1) as relay:
        await relay.handle(events[:4])
        cluster.slow(3_000)
        with pytest.raises(DeliveryFailed):
            await relay.handle(events)
        cluster.slow(0)
        await until_delivered(relay, events)
    assert by_key(events_in(cluster)) == by_key(events)


async def test_what_failed_does_not_arrive_later_by_itself(cluster: Cluster) -> None:
    lost, next_ones = told_of(keys=4, each=5), told_of(keys=4, each=5)
    async with KafkaRelay(config(cluster), timeout=1) as relay:
        cluster.down()
        with pytest.raises(DeliveryFailed):
            await relay.handle(lost)
        cluster.up()
        await until_delivered(relay, next_ones)
    assert by_key(events_in(cluster)) == by_key(next_ones)


async def test_a_producer_that_broke_for_good_is_replaced(cluster: Cluster) -> None:
    events = told_of(keys=1, each=10)
    async with KafkaRelay(config(cluster)) as relay:
        await relay.handle(events[:1])
        broken = relay._courier._producer
        cluster.fail(PRODUCE, [KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER])
        with pytest.raises(DeliveryFailed, match=r"(?i)out of order|desynchron"):
            await relay.handle(events[1:])
        await relay.handle(events[1:])
        assert relay._courier._producer is not broken
    assert set(ids(events_in(cluster))) == set(ids(events))


async def test_a_refusal_that_may_end_is_told_as_passing(cluster: Cluster) -> None:
    events = told_of(keys=1, each=3)
    async with KafkaRelay(config(cluster)) as relay:
        cluster.fail(PRODUCE, [KafkaError.TOPIC_AUTHORIZATION_FAILED] * 3)
        with pytest.raises(DeliveryFailed, match="authorization"):
            await relay.handle(events)
        cluster.forgive(PRODUCE)
        await relay.handle(events)
    assert by_key(events_in(cluster)) == by_key(events)


async def test_a_batch_larger_than_the_producers_own_queue_is_sent(cluster: Cluster) -> None:
    events = told_of(keys=4, each=25)
    async with KafkaRelay(config(cluster, queue_buffering_max_messages=7)) as relay:
        await relay.handle(events)
    assert by_key(events_in(cluster)) == by_key(events)


async def test_the_event_loop_goes_on_while_kafka_does_not_answer(cluster: Cluster) -> None:
    async with KafkaRelay(config(cluster)) as relay:
        await relay.handle([told()])
        cluster.slow(500)
        sending = asyncio.ensure_future(relay.handle([told()]))
        for _ in range(1_000):
            await asyncio.sleep(0)
        assert not sending.done()
        await sending


async def test_a_cancelled_batch_ends_with_nothing_on_its_way(cluster: Cluster) -> None:
    async with KafkaRelay(config(cluster)) as relay:
        cluster.down()
        sending = asyncio.ensure_future(relay.handle([told()]))
        await until(lambda: relay._courier._trouble, "the relay notices")
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert relay._courier._producer is None
        cluster.up()
        last = told()
        await until_delivered(relay, [last])
    assert ids(events_in(cluster)) == [last.id]


async def test_closing_waits_for_a_batch_no_longer_than_it_is_told(cluster: Cluster) -> None:
    relay = KafkaRelay(config(cluster))
    cluster.down()
    stuck = asyncio.ensure_future(relay.handle([told()]))
    await until(lambda: relay._courier._trouble, "the relay notices")
    await relay.close(timeout=0.1)
    with pytest.raises(DeliveryFailed):
        await stuck


async def test_closing_lets_a_batch_arrive(cluster: Cluster) -> None:
    relay = KafkaRelay(config(cluster))
    cluster.slow(200)
    event = told()
    sending = asyncio.ensure_future(relay.handle([event]))
    await until(lambda: relay._courier._producer, "the batch is begun")
    await relay.close(timeout=10)
    await sending
    cluster.slow(0)
    assert ids(events_in(cluster)) == [event.id]


@pytest.mark.parametrize(
    "topic", ["orders", {"shop/orders": "orders"}, lambda name: name.removeprefix("shop/")]
)
async def test_topics_are_mapped_and_the_event_keeps_its_own(cluster: Cluster, topic: TopicMap) -> None:
    event = told(topic="shop/orders")
    async with KafkaRelay(cluster.servers, topic=topic) as relay:
        await relay.handle([event])
    assert [each.topic for each in events_in(cluster)] == ["shop/orders"]


async def test_a_topic_that_kafka_cannot_name_is_a_wrong_setting(cluster: Cluster) -> None:
    async with KafkaRelay(cluster.servers, topic={"other": "orders"}) as relay:
        with pytest.raises(ConfigurationError, match=r"^topic: 'shop/orders'"):
            await relay.handle([told(), told(topic="shop/orders")])
        await relay.handle([told()])
    assert len(events_in(cluster)) == 1, "what stood before it was sent in vain"


async def until_delivered(relay: KafkaRelay, events: Sequence[EventRecord]) -> None:
    """As a consumer does: the same batch, until it is taken."""

    async def is_taken() -> bool:
        try:
            await relay.handle(events)
        except DeliveryFailed:
            return False
        return True

    await until_async(is_taken, "the batch is delivered")
