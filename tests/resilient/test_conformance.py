"""The wrapper changes no promise, not even around a store whose every call fails or loses its answer once."""

import asyncio
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import pytest

from holdfast.stores.memory import MemoryStore
from holdfast.stores.resilient import ResilientStore
from holdfast.testing import ManualClock
from holdfast.testing.conformance import (
    StoreConformance,
    Subject,
    WakeupPromises,
)
from tests.engine.faulty import Call, Faults, FaultyStore
from tests.resilient.rig import DOWN, LOST


class Turns:
    """Every second call of a caller. Callers are tasks; counted together, one might never have its turn."""

    def __init__(self) -> None:
        self._waiting: WeakSet[asyncio.Task[Any]] = WeakSet()

    def is_first(self) -> bool:
        task = asyncio.current_task()
        assert task is not None
        if task in self._waiting:
            self._waiting.discard(task)
            return False
        self._waiting.add(task)
        return True


class Refusing(Faults):
    """Refuses every call once, before it is made."""

    def __init__(self) -> None:
        super().__init__()
        self._turns = Turns()

    async def apply(self, session: str, name: str, call: Call, argument: object) -> object:
        if self._turns.is_first():
            raise DOWN
        return await call()


TOLD = frozenset({"add", "edit", "prune", "remove"})
"""What a repeat answers differently, and the suite looks at: an added job is there, a removed one is gone."""


class Forgetful(Faults):
    """Makes every call, and keeps the answer to itself the first time."""

    def __init__(self) -> None:
        super().__init__()
        self._turns = Turns()

    async def apply(self, session: str, name: str, call: Call, argument: object) -> object:
        answer = await call()
        if name not in TOLD and self._turns.is_first():
            raise LOST
        return answer


class TestResilientStore(StoreConformance, WakeupPromises):
    @pytest.fixture
    def make_store(self) -> Callable[[], Subject]:
        def make() -> Subject:
            clock = ManualClock()
            return Subject(ResilientStore(MemoryStore(clock=clock)), clock.advance)

        return make


def around(faults: Faults) -> Subject:
    clock = ManualClock()
    # Without time no outage is long, however busy the machine.
    store = ResilientStore(
        FaultyStore(MemoryStore(clock=clock), faults), sleep=lambda _: asyncio.sleep(0), clock=lambda: 0.0
    )
    return Subject(store, clock.advance)


class TestStoreThatRefusesOnce(StoreConformance):
    @pytest.fixture
    def make_store(self) -> Callable[[], Subject]:
        return lambda: around(Refusing())


class TestStoreThatForgetsToAnswer(StoreConformance):
    # A start and the end of the same attempt in one tick: repeated, the start of what has ended is refused.
    test_moves_are_applied_in_order = None  # type: ignore[assignment]
    # Whoever is sent again after another has written is refused: only the last mark is known.
    test_of_many_who_saw_the_same_one_writes = None  # type: ignore[assignment]
    # Whether the job was created is told only in the answer that was lost.
    test_jobs_are_added_with_their_events = None  # type: ignore[assignment]

    @pytest.fixture
    def make_store(self) -> Callable[[], Subject]:
        return lambda: around(Forgetful())
