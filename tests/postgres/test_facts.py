"""What an operator is told of a server, and that nobody is told its password."""

import asyncio
import json
import logging
import traceback
from collections.abc import Awaitable
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
from click.testing import CliRunner

from holdfast import Holdfast
from holdfast.cli.main import cli
from holdfast.model.errors import HoldfastError
from holdfast.stores import open_store
from holdfast.stores.postgres import PostgresStore, facts
from holdfast.stores.postgres.schema import CLIENT
from tests.servers.postgres import Postgres
from tests.servers.sql import execute

SECRET = "Tr0ub4dor%263"
PLAIN = "Tr0ub4dor&3"


def warnings(told: dict[str, str]) -> set[str]:
    return {name for name in told if name.startswith("warning")}


async def test_a_good_server_is_described_without_a_warning(postgres_database: str) -> None:
    store = PostgresStore.from_url(postgres_database + "?notify=off")
    told = await store.facts()
    assert told["engine"] == "postgresql"
    assert told["version"][:1].isdigit()
    assert told["schema"] == "none: run holdfast migrate"
    assert told["durability"] == "synchronous_commit=on: every commit is on the disk before it is answered"
    assert told["wake-ups"] == "off: workers poll"
    assert warnings(told) == set()
    await store.migrations.apply()
    told = await store.facts()
    assert told["schema"] == f"holdfast, version {CLIENT}"
    assert told["live jobs"].startswith("about 0, 0 dead rows")


async def test_commits_that_can_be_lost_are_warned_of(postgres_database: str) -> None:
    name = urlsplit(postgres_database).path.removeprefix("/")
    execute(postgres_database, f"ALTER DATABASE {name} SET synchronous_commit = off")
    told = await PostgresStore.from_url(postgres_database).facts()
    assert warnings(told) == {"warning synchronous_commit"}
    assert told["durability"].endswith("commits can be lost")


async def test_a_server_that_does_not_sync_and_a_standby_are_warned_of(private_postgres: Postgres) -> None:
    store = PostgresStore.from_url(private_postgres.url)
    await store.migrations.apply()
    standby = PostgresStore.from_url((await asyncio.to_thread(private_postgres.make_standby)).url)
    assert warnings(await standby.facts()) == {"warning standby"}
    private_postgres.execute("ALTER SYSTEM SET fsync = off")
    private_postgres.execute("SELECT pg_reload_conf()")
    await asyncio.to_thread(private_postgres.restart)
    told = await store.facts()
    assert warnings(told) == {"warning fsync"}
    assert told["durability"].startswith("fsync=off")


async def test_an_old_transaction_and_dead_rows_are_warned_of(
    postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresStore.from_url(postgres_database)
    await store.migrations.apply()
    monkeypatch.setattr(facts, "_LONG_SECONDS", -1)
    monkeypatch.setattr(facts, "_MANY_DEAD", 50)
    connection = await asyncpg.connect(postgres_database)
    try:
        await connection.execute("ALTER TABLE holdfast.job SET (autovacuum_enabled = off)")
        await connection.execute(
            "INSERT INTO holdfast.job (due, created, priority, id, ns, task, queue, payload) "
            "SELECT 0, 0, 0, gen_random_uuid(), 1, '', '', '' FROM generate_series(1, 100)"
        )
        await connection.execute("DELETE FROM holdfast.job")
        await connection.execute("SELECT pg_stat_force_next_flush()")
        async with connection.transaction(isolation="repeatable_read"):
            await connection.execute("SELECT 1")
            told = await store.facts()
            assert warnings(told) == {"warning old transaction", "warning dead rows"}
            assert "100 dead rows" in told["live jobs"]
    finally:
        await connection.close()


def test_doctor_shows_facts_and_warnings(postgres_database: str) -> None:
    name = urlsplit(postgres_database).path.removeprefix("/")
    execute(postgres_database, f"ALTER DATABASE {name} SET synchronous_commit = off")
    missing = CliRunner().invoke(cli, ["doctor", "--json", "--store", postgres_database])
    assert missing.exit_code == 1
    assert "run: holdfast migrate" in json.loads(missing.stdout)["problems"][0]
    assert CliRunner().invoke(cli, ["migrate", "--store", postgres_database]).exit_code == 0
    fine = CliRunner().invoke(cli, ["doctor", "--json", "--store", postgres_database])
    told = json.loads(fine.stdout)
    assert fine.exit_code == 0
    assert told["problems"] == []
    assert told["store"]["schema"] == f"holdfast, version {CLIENT}"
    assert any("synchronous_commit is off" in warning for warning in told["warnings"])


async def outcome(call: Awaitable[Any]) -> str:
    """What it gave, or all that would be printed of what it raised."""
    try:
        return repr(await call)
    except HoldfastError as error:
        return "".join(traceback.format_exception(error))


@pytest.fixture
def locked(private_postgres: Postgres) -> str:
    """The URL, with its password, of a server that asks for one."""
    quoted = PLAIN.replace("'", "''")
    private_postgres.execute(f"CREATE ROLE clerk LOGIN SUPERUSER PASSWORD '{quoted}'")
    rules = private_postgres._data / "pg_hba.conf"
    rules.write_text(f"host all clerk all scram-sha-256\n{rules.read_text()}")
    private_postgres.execute("SELECT pg_reload_conf()")
    parts = urlsplit(private_postgres.url)
    return parts._replace(netloc=f"clerk:{SECRET}@{parts.netloc.rpartition('@')[2]}").geturl()


async def test_no_password_is_ever_told(locked: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    told: list[str] = []

    host = locked.rpartition("@")[2]
    wrong = [
        locked.replace(SECRET, f"x{SECRET}"),
        f"postgresql://clerk:{SECRET}@nowhere.invalid/db?timeout=2",
        f"postgresql://clerk:{SECRET}@127.0.0.1:1/db?timeout=2",
        f"postgresql://clerk:{SECRET}@{host}_missing",
        f"postgresql://clerk:{SECRET}@{host}?sslmode=wrong",
        f"postgresql://{host}?user=clerk&password=x{SECRET}",
    ]
    for url, fails in [(locked, False), *((url, True) for url in wrong)]:
        store = open_store(url)
        bare = PostgresStore.from_url(url)
        assert bare.migrations is not None
        told += [repr(store), repr(bare), repr(bare._address), str(bare._address)]
        for call in (bare.facts(), bare.migrations.apply(), store.facts()):
            answer = await outcome(call)
            told.append(answer)
            assert ("Error" in answer or "Unavailable" in answer) is fails, answer
        await bare.close()
        await store.close()
    app = Holdfast(locked, namespace="shop")
    told.append(repr(app))
    told += [record.getMessage() + str(record.__dict__) for record in caplog.records]
    seen = "\n".join(told)
    assert "password authentication failed" in seen
    assert [part for part in (PLAIN, SECRET, "Tr0ub4dor") if part in seen] == []


def test_no_command_tells_the_password(locked: str) -> None:
    for url in (locked, locked.replace(SECRET, f"x{SECRET}")):
        for command in (["migrate"], ["doctor"], ["migrate", "--print-sql"], ["migrate", "--print-roles"]):
            result = CliRunner().invoke(cli, [*command, "--store", url])
            assert "Tr0ub4dor" not in result.output + str(result.exception)
