"""The schema: applied once, printed whole, refused when it does not fit."""

import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from holdfast.model.errors import SchemaMismatch
from holdfast.model.records import Query
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.schema import CLIENT, steps
from tests.sqlite.support import Child, file_of, new_job, session_at, store_at, url_of

NAMES = [step.name for step in steps()]


def execute(path: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(sql).fetchall()


def tables(path: Path) -> set[str]:
    return {
        str(row[0]) for row in execute(path, "SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")
    }


@pytest.mark.process
async def test_of_four_processes_that_migrate_at_once_one_does(tmp_path: Path) -> None:
    with ExitStack() as stack:
        children = [stack.enter_context(Child("migrate", url_of(tmp_path))) for _ in range(4)]
        for child in children:
            assert child.line() == "ready"
        for child in children:
            child.say("go")
        applied = sorted(line for child in children for line in child.rest())
    assert applied == ["", "", "", " ".join(NAMES)]
    async with session_at(tmp_path) as session:
        assert (await session.jobs.add([new_job()]))[0].created


async def test_without_auto_migrate_the_missing_schema_is_told_and_nothing_made(tmp_path: Path) -> None:
    store = SqliteStore.from_url(url_of(tmp_path), auto_migrate=False)
    with pytest.raises(SchemaMismatch, match="run: holdfast migrate"):
        await store.connect("default")
    assert not file_of(tmp_path).exists()
    assert await store.migrations.pending() == NAMES
    assert not file_of(tmp_path).exists()
    execute(file_of(tmp_path), "CREATE TABLE mine (x)")
    with pytest.raises(SchemaMismatch, match=f"{', '.join(NAMES)} missing; run: holdfast migrate"):
        await store.connect("default")
    assert tables(file_of(tmp_path)) == {"mine"}
    assert await store.migrations.apply() == NAMES
    await (await store.connect("default")).close()


async def test_a_schema_that_needs_a_newer_client_is_refused_in_one_line(tmp_path: Path) -> None:
    migrations = store_at(tmp_path).migrations
    await migrations.apply()
    newer = CLIENT + 1
    execute(
        file_of(tmp_path), f"INSERT INTO holdfast_schema VALUES ({newer}, '{newer:04}_split', {newer}, 'now')"
    )
    for refused in (store_at(tmp_path).connect("default"), migrations.pending(), migrations.apply()):
        with pytest.raises(SchemaMismatch, match="upgrade Holdfast here") as raised:
            await refused
        assert "\n" not in str(raised.value)


async def test_a_newer_schema_that_only_adds_is_accepted(tmp_path: Path) -> None:
    await store_at(tmp_path).migrations.apply()
    path = file_of(tmp_path)
    for table in ("job", "done", "worker", "queue", "attempt"):
        execute(path, f"ALTER TABLE holdfast_{table} ADD COLUMN later TEXT DEFAULT 'x'")
    execute(path, f"INSERT INTO holdfast_schema VALUES ({CLIENT + 1}, '0002_more', {CLIENT}, 'now')")
    async with session_at(tmp_path) as session:
        await session.jobs.add([new_job(), new_job(tags=("a",))])
        assert len(await session.jobs.find(Query())) == 2


async def test_two_prefixes_in_one_file_do_not_see_each_other(tmp_path: Path) -> None:
    execute(file_of(tmp_path), "CREATE TABLE job (mine)")
    async with session_at(tmp_path, "?prefix=hf_") as one, session_at(tmp_path) as other:
        await one.jobs.add([new_job(key="k")])
        assert await other.jobs.find(Query()) == []
        assert (await other.jobs.add([new_job(key="k")]))[0].created
    found = tables(file_of(tmp_path))
    assert {name for name in found if not name.startswith(("hf_", "holdfast_"))} == {"job"}
    assert len({name for name in found if name.startswith("hf_")}) == len(found) // 2


async def test_the_printed_sql_makes_the_same_schema(tmp_path: Path) -> None:
    printed, applied = tmp_path / "printed.db", tmp_path / "jobs.db"
    store = store_at(tmp_path, "?prefix=hf_")
    await store.migrations.apply()
    with closing(sqlite3.connect(printed)) as connection:
        connection.executescript(store.migrations.as_sql())
    shape = "SELECT type, name, sql FROM sqlite_master ORDER BY name"
    assert execute(printed, shape) == execute(applied, shape)
    versions = "SELECT version, name, min_client FROM hf_schema"
    assert execute(printed, versions) == execute(applied, versions)
    assert await SqliteStore.from_url(f"sqlite:///{printed}?prefix=hf_").migrations.pending() == []


async def test_a_step_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    execute(file_of(tmp_path), "CREATE TABLE holdfast_tally (mine)")
    with pytest.raises(Exception, match="already exists"):
        await store_at(tmp_path).migrations.apply()
    assert tables(file_of(tmp_path)) == {"holdfast_tally"}
