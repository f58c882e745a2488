"""What is parked costs others nothing: every look-up is a walk along an index, by as much as it needs."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from holdfast.model.flow import NewFlow, Scope
from holdfast.stores.postgres.pool import Pool
from holdfast.testing.conformance.case import LONG, QUEUE, TASK, new_job
from tests.postgres.flow_support import SCHEMA, Flows, flowing, in_turn, keyed, limit
from tests.postgres.test_plans import EXPLAIN, Explained

MANY = 100_000
MOST = 200
"""So many rows may be read by one step; what is parked is far more."""

PARKED = f"""
    INSERT INTO {SCHEMA}.job (
        ns, id, task, queue, payload, priority, due, created, limit_key, sequence, place, gate)
    SELECT s.id, gen_random_uuid(), '{TASK}', '{QUEUE}', '', 0, 0, 0, CASE WHEN n % 2 = 0 THEN 'busy' END,
           CASE WHEN n % 2 = 1 THEN 'account' END, CASE WHEN n % 2 = 1 THEN 1000000 + n END,
           CASE WHEN n % 2 = 0 THEN 'key:busy' ELSE 'sequence:account' END
    FROM {SCHEMA}.namespace AS s, generate_series(1, {MANY}) AS n
"""
WAITING = f"""
    INSERT INTO {SCHEMA}.link (ns, waiter, job)
    SELECT s.id, gen_random_uuid(), gen_random_uuid() FROM {SCHEMA}.namespace AS s, generate_series(1, {MANY})
"""


@pytest.fixture(params=["never analyzed", "analyzed when empty", "analyzed when full"])
def statistics(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def explaining(url: str, statistics: str) -> AsyncGenerator[tuple[Flows, Explained]]:
    """A namespace with one leased job of a full gate and of a sequence, and very many behind each."""
    async with flowing(url) as at:
        if statistics == "analyzed when empty":
            await at.connection.execute("ANALYZE")
        await at.flow.put([limit(1, Scope.EACH_KEY)])
        await at.add(keyed("busy"), in_turn(), *(new_job(task="free") for _ in range(5)))
        await at.connection.execute(PARKED)
        await at.connection.execute(WAITING)
        if statistics == "analyzed when full":
            await at.connection.execute("ANALYZE")
        await at.connection.execute("LOAD 'auto_explain'")
        for setting, value in EXPLAIN.items():
            await at.connection.execute(f"SET auto_explain.{setting} = '{value}'")
        database = at.jobs._database
        await database._calls.close(1)
        database._calls = Pool(lambda: asyncio.sleep(0, at.connection), most=1)
        yield at, Explained(at.jobs, at.connection)


async def test_claims_ends_and_adds_pass_by_what_is_parked(postgres_database: str, statistics: str) -> None:
    async with explaining(postgres_database, statistics) as (at, explained):
        held = await at.claim()
        assert len(held) == 2
        # The end of both frees one job of the gate and one of the sequence.
        again = await at.finish(*held)
        assert len(again) == 2
        # What is added is parked, or waits, or is free.
        await at.add(
            keyed("busy", priority=-1), in_turn(), new_job(flow=NewFlow(after=(again[0].id,)), delay=LONG)
        )
        assert await at.claim() == []
        assert len(await at.finish(*again)) == 2
        scans = [
            node
            for node in explained.nodes()
            if "Scan" in node["Node Type"] and not node.get("Relation Name", "pg_").startswith("pg_")
        ]
        assert len({node["Relation Name"] for node in scans}) > 5
        assert not [
            (node["Relation Name"], node["Text"])
            for node in scans
            if node["Node Type"] in {"Seq Scan", "Bitmap Heap Scan"}
        ]
        for node in scans:
            read = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
            assert read * node["Actual Loops"] <= MOST, (node["Text"], node)
