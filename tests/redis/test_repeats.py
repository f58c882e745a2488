"""Every promise is kept though each call is made twice, because its first answer was lost."""

import asyncio
from collections.abc import Callable

import pytest

from holdfast.stores.redis import RedisStore
from holdfast.stores.redis.address import parse
from holdfast.stores.resilient import ResilientStore
from holdfast.testing import ManualClock
from holdfast.testing.conformance import (
    LockPromises,
    StandingBatchPromises,
    StoreConformance,
    Subject,
)
from tests.engine.faulty import FaultyStore
from tests.resilient.test_conformance import Forgetful


class TestRedisThatForgetsToAnswer(StoreConformance, LockPromises, StandingBatchPromises):
    # A start and the end of the same attempt in one tick: repeated, the start of what has ended is refused.
    test_moves_are_applied_in_order = None  # type: ignore[assignment]
    # Whoever is sent again after another has written is refused: only the last mark is known.
    test_of_many_who_saw_the_same_one_writes = None  # type: ignore[assignment]
    # Whether the job was created is told only in the answer that was lost.
    test_jobs_are_added_with_their_events = None  # type: ignore[assignment]

    @pytest.fixture
    def make_store(self, redis_url: str) -> Callable[[], Subject]:
        def make() -> Subject:
            clock = ManualClock()
            store = FaultyStore(RedisStore(parse(redis_url), clock=clock), Forgetful())
            return Subject(ResilientStore(store, sleep=lambda _: asyncio.sleep(0)), clock.advance)

        return make
