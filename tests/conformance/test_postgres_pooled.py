"""The PostgreSQL store keeps every promise behind a pooler that gives each transaction another session."""

from collections.abc import Callable, Iterator

import pytest

from holdfast.stores.postgres import PostgresStore
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
from tests.postgres.pooling import Pooled, pooled
from tests.postgres.support import place
from tests.servers.run import Run


@pytest.fixture(scope="module")
def pool(servers: Run, postgres_url: str) -> Iterator[Pooled]:
    with pooled(servers, postgres_url, sessions=2) as made:
        yield made


class TestPooledPostgres(
    StoreConformance,
    WakeupPromises,
    MigrationPromises,
    TransactionPromises,
    EventTransactionPromises,
    FlowTransactionPromises,
    FlowWakeupPromises,
):
    @pytest.fixture
    def make_store(self, pool: Pooled, postgres_url: str) -> Callable[[], Subject]:
        def make() -> Subject:
            clock = ManualClock()
            place(postgres_url, "pooled").clocked(clock)
            return Subject(PostgresStore.from_url(pool.url("pooled")), clock.advance)

        return make
