import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from tests.chaos.waiting import until
from tests.house.test_servers import ROOT, is_running
from tests.servers import redis_binaries
from tests.servers.cache import Missing
from tests.servers.ports import HOST, free_port
from tests.servers.redis import Redis, execute
from tests.servers.run import Run

STARTED = """
import sys
from tests.servers.redis import Redis
from tests.servers.redis_binaries import find_redis
from tests.servers.run import OwnedRun

run = OwnedRun()
server = Redis.make(run, find_redis(run))
server.freeze()
print(run.folder, server.pid, flush=True)
sys.stdin.read()
"""
TWO_TESTS = """
import os, pathlib, pytest
from tests.servers.redis import execute

@pytest.mark.parametrize("name", ["1", "2"])
def test_one(name, redis_url):
    assert execute(redis_url, "DBSIZE") == 0
    execute(redis_url, "SET", "thing", name)
    pathlib.Path(os.environ["FOLDER"], name).write_text(redis_url)
"""


@pytest.mark.parametrize("turn", [1, 2])
def test_the_database_of_a_test_is_empty(turn: int, redis_url: str, valkey_url: str) -> None:
    for url in (redis_url, valkey_url):
        assert execute(url, "DBSIZE") == 0
        execute(url, "SET", "thing", 1)
        assert execute(url, "DBSIZE") == 1


def test_redis_is_new_enough_and_valkey_is_valkey(redis_server: str, valkey_server: str) -> None:
    version = execute(redis_server, "INFO", "server")["redis_version"]
    assert tuple(map(int, version.split(".")[:2])) >= (6, 2)
    assert execute(valkey_server, "INFO", "server")["server_name"] == "valkey"


@pytest.mark.process
def test_a_server_forgets_all_when_it_is_restarted_unless_it_is_told_to_keep_it(private_redis: Redis) -> None:
    before = private_redis.pid
    private_redis.execute("SET", "thing", 42)
    private_redis.restart()
    assert private_redis.pid != before
    assert private_redis.execute("GET", "thing") is None
    private_redis.restart(appendonly="yes", appendfsync="always")
    private_redis.execute("SET", "thing", 42)
    private_redis.restart()
    assert private_redis.execute("GET", "thing") == b"42"
    private_redis.kill()
    private_redis.start()
    assert private_redis.execute("GET", "thing") == b"42"
    assert "Ready to accept connections" in private_redis.log


@pytest.mark.process
def test_a_stopped_server_takes_no_connections(private_redis: Redis) -> None:
    private_redis.stop()
    with pytest.raises(redis.ConnectionError):
        private_redis.execute("PING")
    private_redis.start()
    assert private_redis.execute("PING")


@pytest.mark.process
def test_a_frozen_server_answers_only_when_it_is_thawed(private_redis: Redis) -> None:
    private_redis.freeze()
    with (
        redis.Redis.from_url(private_redis.url, socket_timeout=0.1, retry=None) as client,
        pytest.raises(redis.TimeoutError),
    ):
        client.ping()
    private_redis.thaw()
    assert private_redis.execute("PING")


@pytest.mark.process
def test_settings_hold_after_a_restart(private_redis: Redis) -> None:
    private_redis.restart(maxmemory="3mb", maxmemory_policy="allkeys-lru", requirepass="hidden")
    private_redis.restart()
    memory = private_redis.info("memory")
    assert (memory["maxmemory"], memory["maxmemory_policy"]) == (3 << 20, "allkeys-lru")
    with pytest.raises(redis.AuthenticationError):
        execute(f"redis://{private_redis.address}", "PING")


@pytest.mark.process
def test_a_replica_follows_and_takes_over(private_redis: Redis) -> None:
    private_redis.execute("SET", "thing", 42)
    replica = private_redis.make_replica()
    assert replica.execute("GET", "thing") == b"42"
    with pytest.raises(redis.ReadOnlyError):
        replica.execute("SET", "thing", 43)
    private_redis.kill()
    replica.promote()
    replica.execute("SET", "thing", 43)
    assert replica.execute("GET", "thing") == b"43"


@pytest.mark.process
def test_nothing_is_left_of_a_frozen_server_when_its_run_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTED], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        name, pid = owner.stdout.readline().split()
        owner.kill()
    asyncio.run(until(lambda: not Path(name).exists(), "its folder is removed"))
    assert not is_running(int(pid))


def test_without_a_redis_wheel_the_one_of_valkey_will_do(servers: Run, without_wheels: Path) -> None:
    (without_wheels / "servers" / "valkey").mkdir(parents=True)
    assert redis_binaries.find_redis(servers).name == "valkey-server"


def test_without_any_program_a_message_says_what_to_install(servers: Run, without_wheels: Path) -> None:
    with pytest.raises(Missing, match=r"apt-get install redis-server.*HOLDFAST_TEST_REDIS"):
        redis_binaries.find_redis(servers)
    with pytest.raises(Missing, match=r"apt-get install valkey-server"):
        redis_binaries.find_valkey(servers)
    left = {path.name for path in (without_wheels / "servers").iterdir()}
    assert left == {"redis.lock", "valkey.lock"}


def test_a_program_that_is_too_old_or_something_else_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, shown in [
        ("one", "Redis server v=6.0.16 sha=0"),
        ("two", "hello"),
        ("three", "Valkey server v=8.1.1"),
    ]:
        (tmp_path / name).write_text(f"#!/bin/sh\necho '{shown}'\n")
        (tmp_path / name).chmod(0o755)
    assert redis_binaries.local_server("none", "one", "two", "three") == tmp_path / "three"
    assert redis_binaries.local_server("none", "one", "two") is None


@pytest.mark.process
def test_workers_of_a_run_have_a_server_each_that_ends_with_it(tmp_path: Path) -> None:
    assert "2 passed" in pytest_run(tmp_path, "-n", "2")
    first, second = [(tmp_path / name).read_text() for name in ("1", "2")]
    assert first != second
    for url in (first, second):
        with pytest.raises(redis.ConnectionError):
            execute(url, "PING")


@pytest.mark.process
def test_a_server_that_the_environment_names_is_used_and_left_clean(
    private_redis: Redis, tmp_path: Path
) -> None:
    private_redis.execute("SET", "mine", 1)
    named = f"redis://{private_redis.address}/3"
    assert "2 passed" in pytest_run(tmp_path, "-n", "2", HOLDFAST_TEST_REDIS=named)
    assert {(tmp_path / name).read_text()[-2:] for name in ("1", "2")} == {"/3", "/4"}
    assert set(private_redis.info("keyspace")) == {"db0"}


@pytest.mark.process
def test_a_named_database_that_is_not_empty_is_left_alone(private_redis: Redis, tmp_path: Path) -> None:
    private_redis.execute("SET", "mine", 1)
    shown = pytest_run(tmp_path, HOLDFAST_TEST_REDIS=private_redis.url)
    assert "2 errors" in shown
    assert "HOLDFAST_TEST_REDIS names a database with 1 keys, which tests would delete" in shown
    assert private_redis.execute("GET", "mine") == b"1"


def test_a_named_server_that_does_not_answer_is_an_error_that_keeps_the_password(tmp_path: Path) -> None:
    shown = pytest_run(tmp_path, HOLDFAST_TEST_REDIS=f"redis://me:hidden@{HOST}:{free_port()}")
    assert "2 errors" in shown
    assert "HOLDFAST_TEST_REDIS names a Redis server that cannot be used" in shown
    assert "hidden" not in shown


@pytest.fixture
def without_wheels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A place for fetched programs that is empty, on a machine without any and without a package index."""
    monkeypatch.setattr(redis_binaries, "local_server", lambda *names: None)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": "", "CONFIG_FILE": os.devnull}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    return tmp_path


def pytest_run(folder: Path, *options: str, **environ: str) -> str:
    """Runs two tests, each of which writes the URL of its database into a file; what pytest printed."""
    (folder / "test_two.py").write_text(TWO_TESTS)
    plugins = ["-p", "tests.servers.plugin", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, *options, str(folder)]
    environ = os.environ | {"FOLDER": str(folder), "HOLDFAST_TEST_REDIS": ""} | environ
    return subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False).stdout
