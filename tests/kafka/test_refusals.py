"""What Kafka will never take is found, named, and held back with what follows it."""

import asyncio
import threading

import pytest
from confluent_kafka import KafkaError

from holdfast.kafka import KafkaRelay
from holdfast.model.errors import Undeliverable
from tests.kafka.cluster import PRODUCE, Cluster
from tests.kafka.support import by_key, config, events_in, ids, told, told_of


async def test_an_event_too_large_for_the_producer_is_named_and_those_before_it_are_sent(
    cluster: Cluster,
) -> None:
    before, large, behind = told_of(keys=2, each=5), told("order-2", data=b"x" * 5_000), told("order-1")
    async with KafkaRelay(config(cluster, message_max_bytes=2_000)) as relay:
        with pytest.raises(Undeliverable, match=rf"{large.id}.*topic orders.*too large") as caught:
            await relay.handle([*before, large, behind])
        assert caught.value.event_id == large.id
        assert sorted(ids(events_in(cluster))) == sorted(ids(before))
        await relay.handle([behind])
    assert by_key(events_in(cluster)) == by_key([*before, behind])


async def test_a_request_too_large_for_the_broker_is_sent_in_pieces(cluster: Cluster) -> None:
    events = told_of(keys=1, each=10)
    async with KafkaRelay(config(cluster)) as relay:
        await relay.handle(events[:1])
        cluster.fail(PRODUCE, [KafkaError.MSG_SIZE_TOO_LARGE])
        await relay.handle(events[1:])
    assert ids(events_in(cluster)) == ids(events)


@pytest.mark.parametrize(
    "error", [KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError.POLICY_VIOLATION]
)
async def test_an_event_that_the_broker_refuses_alone_is_named_and_nothing_overtakes_it(
    cluster: Cluster, error: int
) -> None:
    events = told_of(keys=1, each=10)
    async with KafkaRelay(config(cluster)) as relay:
        await relay.handle(events[:1])
        cluster.fail(PRODUCE, [error, KafkaError.NO_ERROR, KafkaError.NO_ERROR, error])
        with pytest.raises(Undeliverable) as caught:
            await relay.handle(events[1:])
        assert caught.value.event_id == events[3].id
        assert ids(events_in(cluster)) == ids(events[:3])
        await relay.handle(events[3:])
    assert ids(events_in(cluster)) == ids(events)


async def test_nothing_follows_the_first_event_of_an_aggregate_until_it_has_arrived(cluster: Cluster) -> None:
    # A broker accepts whatever comes first from a producer that it does not know, and so does the mock.
    events = told_of(keys=1, each=30)
    async with KafkaRelay(config(cluster, batch_num_messages=1)) as relay:
        cluster.fail(PRODUCE, [KafkaError.MSG_SIZE_TOO_LARGE])
        await relay.handle(events)
    assert ids(events_in(cluster)) == ids(events)


async def test_a_refusal_stops_what_is_not_yet_on_its_way(cluster: Cluster) -> None:
    # A broker would refuse also the few requests that are: it counts what a known producer sends.
    events = told_of(keys=1, each=100)
    async with KafkaRelay(config(cluster, batch_num_messages=1)) as relay:
        await relay.handle(events[:1])
        cluster.fail(PRODUCE, [KafkaError.MSG_SIZE_TOO_LARGE])
        batch = await asyncio.to_thread(relay._courier._try, events[1:], threading.Event())
        assert batch.is_refused
        assert set(ids(events[50:])) <= set(ids(batch.missing))
    assert not set(ids(events[50:])) & set(ids(events_in(cluster)))
