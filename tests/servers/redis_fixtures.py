"""Fixtures that give tests Redis and Valkey."""

import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis

from tests.servers.redis import Redis, execute
from tests.servers.redis_binaries import OLDEST, find_redis, find_valkey
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_sentinel import RedisSentinel
from tests.servers.run import Run

SETTING = "HOLDFAST_TEST_REDIS"


@pytest.fixture(scope="session")
def redis_server(servers: Run, pytestconfig: pytest.Config) -> Iterator[str]:
    """The URL of a database that the tests of this process share.

    It is in the server that the environment names, one database for each worker of pytest-xdist; else in one
    of our own.
    """
    if named := os.environ.get(SETTING):
        worker: dict[str, Any] = getattr(pytestconfig, "workerinput", {})
        url = _checked(named, int(str(worker.get("workerid", "0")).removeprefix("gw")))
        yield url
        execute(url, "FLUSHDB")
    else:
        yield from _own(Redis.make(servers, find_redis(servers), "redis"))


@pytest.fixture
def redis_url(redis_server: str) -> str:
    """The URL of a Redis database that is empty when the test begins."""
    execute(redis_server, "FLUSHDB")
    return redis_server


@pytest.fixture(scope="session")
def valkey_server(servers: Run) -> Iterator[str]:
    """The URL of a database in a Valkey server of our own, which the tests of this process share."""
    yield from _own(Redis.make(servers, find_valkey(servers), "valkey"))


@pytest.fixture
def valkey_url(valkey_server: str) -> str:
    """The URL of a Valkey database that is empty when the test begins."""
    execute(valkey_server, "FLUSHDB")
    return valkey_server


@pytest.fixture
def private_redis(servers: Run) -> Iterator[Redis]:
    """A server that only this test has, to be configured, crashed, frozen and followed by replicas."""
    server = Redis.make(servers, find_redis(servers), "private-redis")
    yield server
    server.remove()


@pytest.fixture
def redis_sentinel(servers: Run) -> Iterator[RedisSentinel]:
    """A master, a replica and three Sentinels that only this test has."""
    made = RedisSentinel(servers, find_redis(servers))
    yield made
    made.remove()


@pytest.fixture(scope="session")
def redis_nodes(servers: Run) -> Iterator[RedisCluster]:
    """A cluster that the tests of this process share."""
    made = RedisCluster(servers, find_redis(servers))
    yield made
    made.remove()


@pytest.fixture
def redis_cluster(redis_nodes: RedisCluster) -> Iterator[RedisCluster]:
    """A cluster of three nodes, empty when the test begins, which may end and freeze them and move slots."""
    redis_nodes.make_ready()
    redis_nodes.empty()
    yield redis_nodes
    redis_nodes.make_ready()
    redis_nodes.empty()


def _own(server: Redis) -> Iterator[str]:
    yield server.url
    server.remove()


def _checked(url: str, worker: int) -> str:
    """The worker's database in a server that people named."""
    try:
        parts = urlsplit(url)
        mine = parts._replace(path=f"/{int(parts.path.strip('/') or 0) + worker}").geturl()
        found: str = execute(mine, "INFO", "server")["redis_version"]
        keys: int = execute(mine, "DBSIZE")
    except (OSError, redis.RedisError, ValueError) as error:
        # A traceback would show the URL, which may hold a password.
        pytest.fail(f"{SETTING} names a Redis server that cannot be used: {error}", pytrace=False)
    if tuple(map(int, found.split(".")[:2])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        pytest.fail(f"{SETTING} names Redis {found}; {oldest} or newer is needed", pytrace=False)
    if keys:
        pytest.fail(f"{SETTING} names a database with {keys} keys, which tests would delete", pytrace=False)
    return mine
