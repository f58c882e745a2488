"""A cluster of its own for each test."""

from collections.abc import Iterator

import pytest

from tests.kafka.cluster import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        cluster.topic("orders", 3)
        yield cluster
