"""Fixtures that give tests real servers."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.servers.binaries import OLDEST, find_binaries
from tests.servers.bouncer import Bouncer, find_bouncer
from tests.servers.browser import find_browser
from tests.servers.cache import Missing
from tests.servers.postgres import Postgres
from tests.servers.redis_binaries import find_redis, find_valkey
from tests.servers.run import OwnedRun, Run
from tests.servers.sql import execute, fresh_database

pytest_plugins = ["tests.servers.redis_fixtures"]

SETTING = "HOLDFAST_TEST_POSTGRES"
# What a fixture needs, unless the environment names a server that it takes instead.
_PROGRAMS: dict[str, Callable[[Run], object]] = {
    "browser": find_browser,
    "pgbouncer": find_bouncer,
    "postgres_server": find_binaries,
    "private_postgres": find_binaries,
    "private_redis": find_redis,
    "redis_nodes": find_redis,
    "redis_sentinel": find_redis,
    "redis_server": find_redis,
    "valkey_server": find_valkey,
}
_NAMED = {
    "browser": "HOLDFAST_TEST_BROWSER",
    "postgres_server": SETTING,
    "redis_server": "HOLDFAST_TEST_REDIS",
}
_RUN = pytest.StashKey[Run]()
_FOLDER = "holdfast_servers"


def pytest_configure(config: pytest.Config) -> None:
    """The first process of the run owns its servers; workers of pytest-xdist join it."""
    joined: dict[str, Any] | None = getattr(config, "workerinput", None)
    config.stash[_RUN] = OwnedRun() if joined is None else Run(Path(joined[_FOLDER]))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput[_FOLDER] = str(node.config.stash[_RUN].folder)


def pytest_unconfigure(config: pytest.Config) -> None:
    run = config.stash[_RUN]
    if isinstance(run, OwnedRun):
        run.close()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Fetches programs before the test's time begins to run; if that fails, its fixture says so."""
    run = item.config.stash[_RUN]
    for name in getattr(item, "fixturenames", ()):
        if name in _PROGRAMS and not os.environ.get(_NAMED.get(name, "")):
            with suppress(Missing, OSError):
                _PROGRAMS[name](run)
    return (yield)


@pytest.fixture(scope="session")
def servers(pytestconfig: pytest.Config) -> Run:
    """The run that servers are started in."""
    return pytestconfig.stash[_RUN]


@pytest.fixture(scope="session")
def postgres_server(servers: Run) -> str:
    """The URL of a server that the whole run shares: the one that the environment names, else our own."""
    if named := os.environ.get(SETTING):
        return _checked(named)
    with servers.locked("shared"):
        known = servers.folder / "shared"
        if not known.exists():
            known.write_text(Postgres.make(servers, "shared").url, encoding="ascii")
        return known.read_text(encoding="ascii")


@pytest.fixture(scope="session")
def postgres_url(postgres_server: str) -> Iterator[str]:
    """The URL of a database that the tests of this process share."""
    with fresh_database(postgres_server) as url:
        yield url


@pytest.fixture
def postgres_database(postgres_server: str) -> Iterator[str]:
    """The URL of an empty database that only this test has."""
    with fresh_database(postgres_server) as url:
        yield url


@pytest.fixture
def private_postgres(servers: Run) -> Iterator[Postgres]:
    """A server that only this test has, to be stopped, crashed and followed by standbys."""
    server = Postgres.make(servers, "private")
    yield server
    server.remove()


@pytest.fixture
def pgbouncer(servers: Run) -> Iterator[Callable[[str], Bouncer]]:
    """Puts a PgBouncer, pooling transactions, in front of the server whose URL it is called with."""
    made: list[Bouncer] = []

    def put_before(url: str) -> Bouncer:
        made.append(Bouncer(servers, url))
        return made[-1]

    yield put_before
    for bouncer in made:
        bouncer.remove()


def _checked(url: str) -> str:
    try:
        version = int(execute(url, "SHOW server_version_num")[0][0]) // 10_000
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as error:
        # A traceback would show the URL, which may hold a password.
        pytest.fail(f"{SETTING} names a PostgreSQL server that cannot be used: {error}", pytrace=False)
    if version < OLDEST:
        pytest.fail(f"{SETTING} names PostgreSQL {version}; {OLDEST} or newer is needed", pytrace=False)
    return url
