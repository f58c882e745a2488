"""The schema: made once by whoever comes first, the same from every hand, and usable by older clients."""

import asyncio
import sys
from typing import Any

import asyncpg
import pytest

from holdfast.model.errors import SchemaMismatch
from holdfast.stores import open_store
from holdfast.stores.postgres import PostgresStore, schema
from holdfast.stores.postgres.address import parse
from holdfast.stores.postgres.schema import CLIENT, PostgresMigrations, Step, steps
from holdfast.testing.conformance.case import new_job

CATALOG = """
    SELECT 'table ' || c.relname || ' ' || c.relkind::text || ' ' || coalesce(c.reloptions::text, '')
        || ' ' || coalesce(pg_get_expr(c.relpartbound, c.oid), '') || ' ' || coalesce(c.relacl::text, '')
    FROM pg_class AS c WHERE c.relnamespace = '{0}'::regnamespace AND c.relkind <> 'i'
    UNION ALL
    SELECT 'column ' || c.relname || ' ' || a.attnum || ' ' || a.attname || ' '
        || a.attcollation || ' ' || a.attnotnull || ' ' || format_type(a.atttypid, a.atttypmod)
        || ' ' || coalesce(pg_get_expr(d.adbin, d.adrelid), '')
    FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
    LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE c.relnamespace = '{0}'::regnamespace AND a.attnum > 0 AND c.relkind <> 'i'
    UNION ALL
    SELECT 'index ' || pg_get_indexdef(i.indexrelid)
    FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indrelid
    WHERE c.relnamespace = '{0}'::regnamespace
    UNION ALL
    SELECT 'constraint ' || conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = '{0}'::regnamespace
    UNION ALL
    SELECT 'view ' || c.relname || ' ' || pg_get_viewdef(c.oid) FROM pg_class AS c
    WHERE c.relnamespace = '{0}'::regnamespace AND c.relkind = 'v'
    UNION ALL
    SELECT 'function ' || pg_get_functiondef(oid) || coalesce(proacl::text, '') FROM pg_proc
    WHERE pronamespace = '{0}'::regnamespace
    UNION ALL
    SELECT 'step ' || version || ' ' || name || ' ' || min_client FROM {0}.schema
    UNION ALL
    SELECT 'day ' || name || ' ' || upto || ' ' || made FROM {0}.day
"""
APPLY = """
import asyncio, sys
from holdfast.stores.postgres import PostgresStore
print(len(asyncio.run(PostgresStore.from_url(sys.argv[1]).migrations.apply())))
"""
TUNED = """SELECT relname, reloptions::text FROM pg_class
    WHERE relnamespace = 'holdfast'::regnamespace AND relname IN ('job', 'lease', 'tally')"""


async def query(url: str, sql: str) -> list[Any]:
    connection = await asyncpg.connect(url)
    try:
        return list(await connection.fetch(sql))
    finally:
        await connection.close()


async def run(url: str, script: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(script)
    finally:
        await connection.close()


async def catalog(url: str, name: str) -> list[str]:
    """All that is in a schema, told in the same words wherever it is."""
    return sorted(row[0].replace(name, "@") for row in await query(url, CATALOG.format(name)))


async def test_the_printed_sql_makes_what_the_command_makes_and_may_be_run_again(
    postgres_database: str,
) -> None:
    by_command = PostgresStore.from_url(f"{postgres_database}?schema=commanded")
    by_hand = PostgresStore.from_url(f"{postgres_database}?schema=handmade")
    assert await by_command.migrations.apply() == [step.name for step in steps()]
    script = by_hand.migrations.as_sql()
    await run(postgres_database, script)
    made = await catalog(postgres_database, "handmade")
    assert made == await catalog(postgres_database, "commanded")
    assert len(made) > 200
    await run(postgres_database, script)
    assert await by_hand.migrations.apply() == []
    assert await catalog(postgres_database, "handmade") == made


async def test_the_printed_sql_completes_an_older_schema(
    postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresStore.from_url(postgres_database)
    script = store.migrations.as_sql()
    _with_steps(monkeypatch, steps()[:-1])
    monkeypatch.setattr(schema, "_DAYS", "SELECT 1")
    await store.migrations.apply()
    monkeypatch.undo()
    assert await store.migrations.pending() == [steps()[-1].name]
    await run(postgres_database, script)
    assert await store.migrations.pending() == []


async def test_of_several_processes_one_makes_the_schema(postgres_database: str) -> None:
    started = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", APPLY, postgres_database, stdout=asyncio.subprocess.PIPE
        )
        for _ in range(4)
    ]
    told = [int((await process.communicate())[0]) for process in started]
    assert sorted(told) == [0, 0, 0, len(steps())]


async def test_of_several_in_one_process_one_makes_the_schema(postgres_database: str) -> None:
    stores = [PostgresStore.from_url(postgres_database) for _ in range(8)]
    told = await asyncio.gather(*(store.migrations.apply() for store in stores))
    assert sorted(map(len, told)) == [0] * 7 + [len(steps())]


async def test_a_step_that_fails_leaves_nothing_behind(
    postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = Step(CLIENT + 1, "9999_bad", 1, "CREATE TABLE holdfast.half (a int);\nSELECT 1 / 0;")
    _with_steps(monkeypatch, (*steps(), bad))
    store = PostgresStore.from_url(postgres_database)
    with pytest.raises(Exception, match="division by zero"):
        await store.migrations.apply()
    assert await query(postgres_database, "SELECT to_regnamespace('holdfast')::text") == [(None,)]
    with pytest.raises(asyncpg.DivisionByZeroError):
        await run(postgres_database, store.migrations.as_sql())
    assert await query(postgres_database, "SELECT to_regnamespace('holdfast')::text") == [(None,)]
    monkeypatch.undo()
    assert len(await store.migrations.apply()) == len(steps())


async def test_without_a_schema_the_error_says_what_to_run(postgres_database: str) -> None:
    for store in (PostgresStore.from_url(postgres_database), open_store(postgres_database)):
        with pytest.raises(SchemaMismatch, match=r"0001_tables, .* missing; run: holdfast migrate"):
            await store.connect("shop")
        await store.close()
    assert await query(postgres_database, "SELECT to_regnamespace('holdfast')::text") == [(None,)]
    asked = open_store(postgres_database, auto_migrate=True)
    await (await asked.connect("shop")).close()
    await asked.close()


async def test_an_older_client_works_on_while_a_newer_schema_is_there(
    postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresStore.from_url(postgres_database)
    await store.migrations.apply()
    old = await store.connect("shop")
    await old.jobs.add([new_job()])
    added = Step(CLIENT + 1, "9998_more", 1, "ALTER TABLE holdfast.job ADD COLUMN more text;")
    _with_steps(monkeypatch, (*steps(), added))
    monkeypatch.setattr(schema, "CLIENT", CLIENT + 1)
    assert await PostgresStore.from_url(postgres_database).migrations.apply() == ["9998_more"]
    monkeypatch.undo()
    # One that was connected before the change, and one that comes after it.
    assert await store.migrations.pending() == []
    new = await store.connect("shop")
    for session in (old, new):
        await session.jobs.add([new_job()])
        assert sum(count.count for count in await session.jobs.count()) > 0
        await session.jobs.prune(10**12, 10)
        await session.close()


async def test_a_schema_that_is_too_new_is_refused_with_what_to_do(
    postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresStore.from_url(postgres_database)
    broken = Step(CLIENT + 1, "9998_break", CLIENT + 1, "SELECT 1;")
    _with_steps(monkeypatch, (*steps(), broken))
    monkeypatch.setattr(schema, "CLIENT", CLIENT + 1)
    await store.migrations.apply()
    monkeypatch.undo()
    new = CLIENT + 1
    wanted = rf"is version {new} and needs Holdfast with schema {new} or newer.*upgrade Holdfast here"
    with pytest.raises(SchemaMismatch, match=wanted):
        await store.connect("shop")
    with pytest.raises(SchemaMismatch, match=wanted):
        await store.migrations.apply()


async def test_hot_tables_are_vacuumed_early(postgres_database: str) -> None:
    await PostgresStore.from_url(postgres_database).migrations.apply()
    tuned = dict(await query(postgres_database, TUNED))
    assert set(tuned) == {"job", "lease", "tally"}
    for options in tuned.values():
        assert "autovacuum_vacuum_scale_factor" in options
        assert "autovacuum_vacuum_cost_delay=0" in options


def test_the_client_is_as_new_as_the_newest_step() -> None:
    assert steps()[-1].version == CLIENT
    assert [step.version for step in steps()] == list(range(1, CLIENT + 1))
    assert all(1 <= step.min_client <= CLIENT for step in steps())
    assert isinstance(PostgresMigrations(parse("postgresql://h/db")).as_sql(), str)


def _with_steps(monkeypatch: pytest.MonkeyPatch, these: tuple[Step, ...]) -> None:
    monkeypatch.setattr(schema, "steps", lambda: these)
