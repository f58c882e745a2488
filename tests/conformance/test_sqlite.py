"""The SQLite store keeps every promise, and answers as the memory store does."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.clock import ManualClock
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


class TestSqlite(
    StoreConformance,
    FlowTransactionPromises,
    FlowWakeupPromises,
    WakeupPromises,
    MigrationPromises,
    TransactionPromises,
    EventTransactionPromises,
):
    @pytest.fixture
    def make_store(self, tmp_path: Path) -> Callable[[], Subject]:
        def make() -> Subject:
            clock = ManualClock()
            return Subject(SqliteStore.from_url(f"sqlite:///{tmp_path}/jobs.db", clock=clock), clock.advance)

        return make


class SqliteStoreMachine(ComparedMachine):
    def open_store(self, clock: ManualClock) -> SqliteStore:
        self.folder = tempfile.TemporaryDirectory()
        return SqliteStore.from_url(f"sqlite:///{self.folder.name}/jobs.db", clock=clock)

    def teardown(self) -> None:
        super().teardown()
        self.folder.cleanup()


class SqliteMachine(EventMachine, SqliteStoreMachine):
    pass


class SqliteFlowMachine(FlowMachine, SqliteStoreMachine):
    pass


TestSqliteMachine = pytest.mark.timeout(240)(SqliteMachine.TestCase)  # Hypothesis would shrink a timeout
TestSqliteMachine.settings = settings(TestSqliteMachine.settings, max_examples=25, stateful_step_count=30)

TestSqliteFlow = pytest.mark.timeout(240)(SqliteFlowMachine.TestCase)
TestSqliteFlow.settings = settings(TestSqliteFlow.settings, max_examples=50, stateful_step_count=40)
