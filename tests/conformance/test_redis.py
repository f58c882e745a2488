"""The Redis store keeps every promise, and answers as the memory store does."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import settings

from holdfast.stores.redis import RedisStore
from holdfast.stores.redis.address import parse
from holdfast.testing import ManualClock
from holdfast.testing.conformance import (
    FlowWakeupPromises,
    LockPromises,
    StandingBatchPromises,
    StoreConformance,
    Subject,
    WakeupPromises,
)
from holdfast.testing.conformance.event_machine import EventMachine
from holdfast.testing.conformance.flow_machine import FlowMachine
from holdfast.testing.conformance.machine import ComparedMachine
from tests.redis.soundness import check_sound
from tests.redis.support import emptied
from tests.servers.redis_cluster import RedisCluster


def clocked(url: str) -> Callable[[], Subject]:
    def make() -> Subject:
        clock = ManualClock()
        return Subject(RedisStore(parse(url), clock=clock), clock.advance)

    return make


class TestRedis(StoreConformance, FlowWakeupPromises, WakeupPromises, StandingBatchPromises):
    @pytest.fixture
    def make_store(self, redis_url: str) -> Callable[[], Subject]:
        return clocked(redis_url)


class TestRedisWithJobsThatMayBeKnown(StandingBatchPromises):
    is_fresh = False

    @pytest.fixture
    def make_store(self, redis_url: str) -> Callable[[], Subject]:
        return clocked(redis_url)


class TestValkey(StoreConformance, FlowWakeupPromises, WakeupPromises, StandingBatchPromises):
    @pytest.fixture
    def make_store(self, valkey_url: str) -> Callable[[], Subject]:
        return clocked(valkey_url)


class TestRedisCluster(
    StoreConformance, FlowWakeupPromises, WakeupPromises, LockPromises, StandingBatchPromises
):
    @pytest.fixture
    def make_store(self, redis_nodes: RedisCluster) -> Callable[[], Subject]:
        return clocked(redis_nodes.url)


class RedisStoreMachine(ComparedMachine):
    url = ""

    def open_store(self, clock: ManualClock) -> RedisStore:
        asyncio.run(emptied(self.url))
        return RedisStore(parse(self.url), clock=clock)

    def teardown(self) -> None:
        super().teardown()
        check_sound(self.url)


class RedisMachine(EventMachine, RedisStoreMachine):
    pass


class RedisFlowMachine(FlowMachine, RedisStoreMachine):
    pass


TestRedisMachine = pytest.mark.timeout(240)(RedisMachine.TestCase)  # Hypothesis would shrink a timeout
TestRedisMachine.settings = settings(TestRedisMachine.settings, max_examples=25, stateful_step_count=30)


TestRedisFlow = pytest.mark.timeout(240)(RedisFlowMachine.TestCase)
TestRedisFlow.settings = settings(TestRedisFlow.settings, max_examples=60, stateful_step_count=50)


@pytest.fixture(autouse=True, scope="module")
def _server(redis_server: str) -> None:
    RedisStoreMachine.url = redis_server
