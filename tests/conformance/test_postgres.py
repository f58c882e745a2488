"""The PostgreSQL store keeps every promise, and answers as the memory store does."""

from collections.abc import Callable

import pytest
from hypothesis import settings

from holdfast.stores.postgres import PostgresStore
from holdfast.testing import ManualClock
from holdfast.testing.conformance import (
    EventTransactionPromises,
    FlowTransactionPromises,
    FlowWakeupPromises,
    MigrationPromises,
    StandingPromises,
    StoreConformance,
    Subject,
    TransactionPromises,
    WakeupPromises,
)
from holdfast.testing.conformance.event_machine import EventMachine
from holdfast.testing.conformance.flow_machine import FlowMachine
from holdfast.testing.conformance.machine import ComparedMachine
from tests.postgres.support import place


class TestPostgres(
    StoreConformance,
    WakeupPromises,
    StandingPromises,
    MigrationPromises,
    TransactionPromises,
    EventTransactionPromises,
    FlowTransactionPromises,
    FlowWakeupPromises,
):
    most = 1

    @pytest.fixture
    def make_store(self, postgres_url: str) -> Callable[[], Subject]:
        def make() -> Subject:
            clock = ManualClock()
            return Subject(place(postgres_url, "conformance").clocked(clock), clock.advance)

        return make


class PostgresStoreMachine(ComparedMachine):
    url = ""

    def open_store(self, clock: ManualClock) -> PostgresStore:
        here = place(self.url, "machine")
        here.empty()
        return here.clocked(clock)


class PostgresMachine(EventMachine, PostgresStoreMachine):
    pass


class PostgresFlowMachine(FlowMachine, PostgresStoreMachine):
    pass


# Hypothesis would shrink a timeout.
TestPostgresMachine = pytest.mark.timeout(240)(PostgresMachine.TestCase)
TestPostgresMachine.settings = settings(TestPostgresMachine.settings, max_examples=25, stateful_step_count=30)
TestPostgresFlow = pytest.mark.timeout(240)(PostgresFlowMachine.TestCase)
TestPostgresFlow.settings = settings(TestPostgresFlow.settings, max_examples=15, stateful_step_count=30)


@pytest.fixture(autouse=True, scope="module")
def _database(postgres_url: str) -> None:
    PostgresStoreMachine.url = postgres_url
