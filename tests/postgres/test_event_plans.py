"""Query plans of events: by indexes, whatever the planner thinks is in the tables."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres.pool import Pool
from holdfast.stores.postgres.store import PostgresSession
from holdfast.testing.conformance.events import new_event
from tests.postgres.test_plans import EXPLAIN, Explained

SCHEMA = "plans"
MANY = 100_000
PAGE = 50
FILL = f"""
    INSERT INTO {SCHEMA}.event (ns, position, at, version, id, topic, type, aggregate, data)
    SELECT 1, n, n, CASE WHEN n % 2 = 0 THEN n / 1000 + 1 END, 'e' || n, 't' || n % 10, 'x',
           CASE WHEN n % 2 = 0 THEN 'a' || n % 1000 END, 'data'
    FROM generate_series(1, {MANY}) AS n;
    INSERT INTO {SCHEMA}.event_head (ns, last) VALUES (1, {MANY});
"""
SCANS = {"Index Scan", "Index Only Scan", "Tid Scan"}


@asynccontextmanager
async def explaining(url: str, statistics: str) -> AsyncGenerator[tuple[PostgresSession, Explained]]:
    """A session with many events, some statistics, and its plans."""
    store = PostgresStore.from_url(f"{url}?schema={SCHEMA}", auto_migrate=True)
    session = await store.connect("n")
    opened = await asyncpg.connect(url)
    try:
        if statistics == "analyzed when empty":
            await opened.execute("ANALYZE")
        await opened.execute(FILL)
        if statistics == "analyzed when full":
            await opened.execute("ANALYZE")
        await opened.execute("LOAD 'auto_explain'")
        for setting, value in EXPLAIN.items():
            await opened.execute(f"SET auto_explain.{setting} = '{value}'")
        await session.jobs._database._calls.close(1)
        session.jobs._database._calls = Pool(lambda: asyncio.sleep(0, opened), most=1)
        explained = Explained(session.jobs, opened)
        await session.events.read(0, 1)
        yield session, explained
    finally:
        await session.close()
        await store.close()


def looked(explained: Explained, table: str) -> list[dict[str, Any]]:
    """How a table was looked at. Nothing was found by looking through it."""
    scans = [node for node in explained.nodes() if "Scan" in node["Node Type"] and "Relation Name" in node]
    assert {node["Node Type"] for node in scans} <= SCANS
    assert not [node for node in scans if node.get("Rows Removed by Filter", 0) > 1]
    return [node for node in scans if node["Relation Name"] == table]


@pytest.fixture(params=["never analyzed", "analyzed when empty", "analyzed when full"])
def statistics(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_a_page_is_read_along_the_index_of_what_is_asked_for(
    postgres_database: str, statistics: str
) -> None:
    async with explaining(postgres_database, statistics) as (session, explained):
        ways: list[tuple[dict[str, str], str, int]] = [
            ({}, "event_pkey", PAGE),
            ({"topic": "t4"}, "event_topic", PAGE),
            ({"topic": "t4", "aggregate": "a24"}, "event_aggregate", PAGE),
            ({"topic": "none"}, "event_topic", 0),
        ]
        for which, index, count in ways:
            explained.plans.clear()
            page = await session.events.read(MANY // 2, PAGE, **which)
            assert len(page.records) == count
            [node] = looked(explained, "event")
            assert (node["Index Name"], node["Actual Rows"], node["Actual Loops"]) == (index, count, 1)


async def test_positions_are_given_by_a_few_probes_for_each_event(
    postgres_database: str, statistics: str
) -> None:
    async with explaining(postgres_database, statistics) as (session, explained):
        for _ in range(3):
            told = [new_event("t4", "a24") for _ in range(PAGE)]
            await session.events.append([*told, new_event("t4", "new"), new_event(id="e7")])
            explained.plans.clear()
            page = await session.events.read(MANY, 1_000, topic="t4")
            nodes = looked(explained, "event")
            assert {node["Index Name"] for node in nodes} == {"event_id", "event_aggregate", "event_topic"}
            assert all(node["Actual Rows"] <= 1 for node in nodes if node["Index Name"] != "event_topic")
            assert all(node["Actual Loops"] <= PAGE + 2 for node in nodes)
            assert sum(node["Actual Rows"] for node in looked(explained, "outbox")) <= 2 * (PAGE + 2) + 1
            assert page.upto == await session.events.last()


async def test_few_old_events_are_removed_without_a_look_at_the_others(
    postgres_database: str, statistics: str
) -> None:
    async with explaining(postgres_database, statistics) as (session, explained):
        assert await session.events.prune(0, {"t1": 0, "t2": 1}, PAGE) == PAGE
        explained.plans.clear()
        assert await session.events.prune(0, {"t1": 0, "t2": 5}, PAGE) == PAGE
        assert sum(node["Actual Rows"] * node["Actual Loops"] for node in looked(explained, "event")) < 1_000
        page = await session.events.read(0, PAGE)
        kept = [place for place in range(1, MANY) if place != 2 and (place % 10 in {1, 2} or place > 125)]
        assert [event.position for event in page.records] == kept[:PAGE]
