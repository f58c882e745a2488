"""Lists of jobs are found by index, however many jobs there are, live and finished."""

import json
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from holdfast.model.lifecycle import State
from holdfast.model.records import Query
from holdfast.stores import open_store
from holdfast.stores.postgres.queries import Queries, found

MANY, DEAD = 20_000, 3_000
FILL = f"""
    INSERT INTO holdfast.namespace (name) VALUES ('default') ON CONFLICT DO NOTHING;
    INSERT INTO holdfast.job (due, created, priority, id, ns, ready, task, queue, payload)
    SELECT n, n, 0, gen_random_uuid(), id, true, 'add', 'queue-' || n % 4, '[]'
    FROM holdfast.namespace, generate_series(1, {MANY}) AS n;
    INSERT INTO holdfast.done (ns, id, task, queue, payload, state, priority, due, created, started, finished,
                               run, failures, lost, suspect, version, token, ran_by, cancel_asked)
    SELECT id, gen_random_uuid(), 'add', 'queue-' || n % 4, '[]', 3, 0, n, n, n, n, 1, 0, 0, false, 3, n, 'w',
        false
    FROM holdfast.namespace, generate_series(1, {MANY}) AS n;
    INSERT INTO holdfast.done (ns, id, task, queue, payload, state, priority, due, created, started, finished,
                               run, failures, lost, suspect, version, token, ran_by, cancel_asked)
    SELECT id, gen_random_uuid(), 'add', 'queue-' || n % 4, '[]', CASE n % 3 WHEN 0 THEN 6 ELSE 4 END, 0, n,
        n, n, n, 4, 4, 0, false, 3, n, NULL, false
    FROM holdfast.namespace, generate_series(1, {3 * DEAD}) AS n;
    ANALYZE holdfast.job, holdfast.done;
"""


def steps(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from steps(inner)


def looked_at(step: dict[str, Any]) -> int:
    rows: int = (step["Actual Rows"] + step.get("Rows Removed by Filter", 0)) * step["Actual Loops"]
    return rows


@pytest.mark.timeout(120)
async def test_no_list_sorts_or_reads_all_jobs(postgres_database: str) -> None:
    store = open_store(postgres_database)
    assert store.migrations is not None
    await store.migrations.apply()
    await store.close()
    connection = await asyncpg.connect(postgres_database)
    try:
        await connection.execute(FILL)
        for query in (
            Query(limit=50),
            Query(limit=50, queue="queue-2"),
            Query(limit=50, states=frozenset({State.SUCCESS})),
            Query(limit=50, states=frozenset({State.SCHEDULED, State.RETRY, State.DLQ})),
            Query(limit=50, states=frozenset({State.DLQ})),
            Query(limit=50, states=frozenset({State.DLQ}), cursor="80000000-0000-7000-8000-000000000000"),
            Query(limit=50, states=frozenset({State.FAILED, State.DLQ, State.CANCELLED})),
            Query(limit=50, states=frozenset({State.CLAIMED, State.RUNNING})),
            Query(limit=50, states=frozenset({State.RUNNING, State.DLQ}), task="add"),
            Query(limit=50, worker="w"),
        ):
            sql, args = found(Queries(), query)
            ns = await connection.fetchval("SELECT id FROM holdfast.namespace")
            told = await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", ns, *args)
            read = [step for step in steps(json.loads(told)[0]["Plan"]) if "Scan" in step["Node Type"]]
            assert read
            assert not [
                step for step in read if step["Node Type"] == "Seq Scan" and step["Actual Rows"] > 100
            ]
            assert sum(map(looked_at, read)) < 1_000, query
    finally:
        await connection.close()
