"""Three partitions keep the promises of one store, but for those that are named here."""

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.model.partition import Layout, layout
from holdfast.store import Store
from holdfast.stores.redis import RedisStore
from holdfast.stores.redis.address import parse
from holdfast.testing import ManualClock
from holdfast.testing.conformance import (
    FlowPromises,
    FlowWakeupPromises,
    StoreConformance,
    Subject,
    WakeupPromises,
)
from holdfast.testing.conformance.add import AddPromises
from holdfast.testing.conformance.claim import ClaimPromises
from holdfast.testing.conformance.edit import EditPromises
from holdfast.testing.conformance.find import CountPromises, FindPromises
from holdfast.testing.conformance.fleet import FleetPromises
from holdfast.testing.conformance.moves import MovePromises
from tests.partitioned.support import in_memory, made_of, memory_layout
from tests.postgres.support import place

URLS = {"a": "memory://a", "b": "memory://b", "c": "memory://c"}


def together() -> Layout:
    """All queues in one partition, so that it alone has all keys; topics are spread."""
    return layout(URLS, queues=[("*", "a")])


def subject(found: Layout) -> Subject:
    clock = ManualClock()
    return Subject(in_memory(clock, found), clock.advance)


class NoOneLog:
    """Each partition has a log of its own: positions seen over all of them have gaps."""

    test_an_event_comes_back_as_it_was_appended: Any = None
    test_positions_have_no_gap_and_versions_count_for_each_aggregate: Any = None
    test_reading_goes_on_behind_a_position_and_keeps_to_topic_and_aggregate: Any = None
    test_events_of_another_namespace_are_neither_seen_nor_counted: Any = None
    test_only_old_events_that_were_passed_are_pruned: Any = None
    test_positions_and_versions_go_on_growing_when_events_are_pruned: Any = None


class NoOneScopeOfKeys:
    """A key is held in its partition: these have the same one in two queues, or in a queue and a schedule."""

    test_every_name_works_wherever_a_name_is_taken: Any = None
    test_the_holder_of_a_key_is_the_answer: Any = None
    test_jobs_are_added_with_the_write_and_taken_ones_left_out: Any = None


class TestQueuesInOnePartition(NoOneLog, StoreConformance, FlowWakeupPromises, WakeupPromises):
    @pytest.fixture
    def make_store(self) -> Callable[[], Subject]:
        return lambda: subject(together())


class TestQueuesInAllPartitions(
    NoOneLog, NoOneScopeOfKeys, StoreConformance, FlowWakeupPromises, WakeupPromises
):
    @pytest.fixture
    def make_store(self) -> Callable[[], Subject]:
        return lambda: subject(memory_layout())


class TestThreePostgresDatabases(
    NoOneScopeOfKeys,
    AddPromises,
    ClaimPromises,
    MovePromises,
    EditPromises,
    FindPromises,
    CountPromises,
    FleetPromises,
    FlowPromises,
    FlowWakeupPromises,
    WakeupPromises,
):
    """The topics in which it may matter what the partitions are; Redis and memory are asked all of them."""

    @pytest.fixture
    def make_store(self, postgres_urls: dict[str, str]) -> Callable[[], Subject]:
        def make() -> Subject:
            clock = ManualClock()
            stores: dict[str, Store] = {
                name: place(url, "partitioned").clocked(clock) for name, url in postgres_urls.items()
            }
            return Subject(made_of(stores, postgres_urls), clock.advance)

        return make


class TestThreeRedisServers(NoOneLog, NoOneScopeOfKeys, StoreConformance, FlowWakeupPromises, WakeupPromises):
    @pytest.fixture
    def make_store(self, redis_urls: dict[str, str]) -> Callable[[], Subject]:
        def make() -> Subject:
            clock = ManualClock()
            stores: dict[str, Store] = {
                name: RedisStore(parse(url), clock=clock) for name, url in redis_urls.items()
            }
            return Subject(made_of(stores, redis_urls), clock.advance)

        return make
