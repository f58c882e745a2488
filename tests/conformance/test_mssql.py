"""The SQL Server store keeps every promise, and answers as the memory store does, on a named server.

Without one there is nothing to run, and the closing lines of the run say so.
"""

from collections.abc import Callable

import pytest
from hypothesis import settings

from holdfast.stores.mssql import MssqlStore
from holdfast.testing import ManualClock
from holdfast.testing.conformance import (
    EventTransactionPromises,
    FlowTransactionPromises,
    FlowWakeupPromises,
    MigrationPromises,
    StoreConformance,
    Subject,
    TransactionPromises,
    WakeupPromises,
)
from holdfast.testing.conformance.event_machine import EventMachine
from holdfast.testing.conformance.flow_machine import FlowMachine
from holdfast.testing.conformance.machine import ComparedMachine
from tests.mssql.server import URL, place

# A server that compiles procedures for each session is slow to begin with.
pytestmark = pytest.mark.timeout(900)

if URL:

    class TestMssql(
        StoreConformance,
        WakeupPromises,
        MigrationPromises,
        TransactionPromises,
        EventTransactionPromises,
        FlowTransactionPromises,
        FlowWakeupPromises,
    ):
        @pytest.fixture
        def make_store(self) -> Callable[[], Subject]:
            def make() -> Subject:
                clock = ManualClock()
                return Subject(place("conformance").clocked(clock), clock.advance)

            return make

    class MssqlStoreMachine(ComparedMachine):
        def open_store(self, clock: ManualClock) -> MssqlStore:
            here = place("machine")
            here.empty()
            return here.clocked(clock)

    class MssqlMachine(EventMachine, MssqlStoreMachine):
        pass

    class MssqlFlowMachine(FlowMachine, MssqlStoreMachine):
        pass

    # Hypothesis would shrink a timeout.
    TestMssqlMachine = pytest.mark.timeout(1800)(MssqlMachine.TestCase)
    TestMssqlMachine.settings = settings(TestMssqlMachine.settings, max_examples=15, stateful_step_count=25)
    TestMssqlFlowMachine = pytest.mark.timeout(1800)(MssqlFlowMachine.TestCase)
    TestMssqlFlowMachine.settings = settings(
        TestMssqlFlowMachine.settings, max_examples=15, stateful_step_count=25
    )
