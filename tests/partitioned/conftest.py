"""Three servers, or three databases, for each test that wants partitions of them."""

from collections.abc import Iterator

import pytest

from tests.servers.postgres import Postgres
from tests.servers.redis import Redis, execute
from tests.servers.redis_binaries import find_redis
from tests.servers.run import Run
from tests.servers.sql import fresh_database

NAMES = ("a", "b", "c")


@pytest.fixture(scope="session")
def postgres_urls(postgres_server: str) -> Iterator[dict[str, str]]:
    """Three databases of one server, which the tests of this process share."""
    with (
        fresh_database(postgres_server) as one,
        fresh_database(postgres_server) as two,
        fresh_database(postgres_server) as three,
    ):
        yield dict(zip(NAMES, (one, two, three), strict=True))


@pytest.fixture
def postgres_databases(postgres_server: str) -> Iterator[dict[str, str]]:
    """Three empty databases of one server that only this test has."""
    with (
        fresh_database(postgres_server) as one,
        fresh_database(postgres_server) as two,
        fresh_database(postgres_server) as three,
    ):
        yield dict(zip(NAMES, (one, two, three), strict=True))


@pytest.fixture(scope="session")
def redis_servers(servers: Run) -> Iterator[dict[str, Redis]]:
    """Three servers, which the tests of this process share."""
    made = {name: Redis.make(servers, find_redis(servers), f"partition-{name}") for name in NAMES}
    yield made
    for server in made.values():
        server.remove()


@pytest.fixture
def redis_urls(redis_servers: dict[str, Redis]) -> dict[str, str]:
    """Three Redis databases, empty when the test begins, each of a server of its own."""
    for server in redis_servers.values():
        execute(server.url, "FLUSHDB")
    return {name: server.url for name, server in redis_servers.items()}


@pytest.fixture
def private_servers(servers: Run) -> Iterator[dict[str, Redis]]:
    """Three Redis servers that only this test has, to be ended, frozen and started again."""
    made = {name: Redis.make(servers, find_redis(servers), f"private-{name}") for name in NAMES}
    yield made
    for server in made.values():
        server.remove()


@pytest.fixture
def private_postgreses(servers: Run) -> Iterator[dict[str, Postgres]]:
    """Three PostgreSQL servers that only this test has, to be ended, frozen and started again."""
    made = {name: Postgres.make(servers, f"private-{name}") for name in NAMES}
    yield made
    for server in made.values():
        server.remove()
