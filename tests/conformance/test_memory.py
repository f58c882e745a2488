"""The memory store keeps every promise."""

from collections.abc import Callable

import pytest
from hypothesis import settings

from holdfast.store import Store
from holdfast.stores.memory import MemoryStore
from holdfast.testing import ManualClock
from holdfast.testing.conformance import (
    FlowWakeupPromises,
    StoreConformance,
    Subject,
    WakeupPromises,
)
from holdfast.testing.conformance.event_machine import EventMachine
from holdfast.testing.conformance.flow_machine import FlowMachine


class TestMemoryStore(StoreConformance, FlowWakeupPromises, WakeupPromises):
    @pytest.fixture
    def make_store(self) -> Callable[[], Subject]:
        def make() -> Subject:
            clock = ManualClock()
            return Subject(MemoryStore(clock=clock), clock.advance)

        return make


class MemoryMachine(EventMachine):
    def open_store(self, clock: ManualClock) -> Store:
        return MemoryStore(clock=clock)


TestMemoryMachine = pytest.mark.timeout(240)(MemoryMachine.TestCase)  # Hypothesis would shrink a timeout
TestMemoryMachine.settings = settings(TestMemoryMachine.settings, max_examples=100, stateful_step_count=50)


class MemoryFlowMachine(FlowMachine):
    def open_store(self, clock: ManualClock) -> Store:
        return MemoryStore(clock=clock)


TestMemoryFlow = pytest.mark.timeout(240)(MemoryFlowMachine.TestCase)
TestMemoryFlow.settings = settings(TestMemoryFlow.settings, max_examples=100, stateful_step_count=50)
