"""Query plans of a tick and of adding a job: by indexes, whatever the planner thinks is in the tables."""

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from holdfast.model.records import JobRecord, NewJob, Tick
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres.jobs import PostgresJobs
from holdfast.stores.postgres.pool import Pool
from holdfast.stores.postgres.store import PostgresSession
from holdfast.testing.conformance.case import LONG, QUEUE, TASK, ended, new_job, wanted, worker_record

SCHEMA = "plans"
MANY = 1_500
BATCH = 200
IDLE = f"""
    INSERT INTO {SCHEMA}.worker SELECT 0, 0, {2**62}, id, 1, 1, 'w' || n, 'h', '{{}}', '{{}}', ''
    FROM {SCHEMA}.namespace, generate_series(1, 500) AS n;
    INSERT INTO {SCHEMA}.standing
    SELECT n, {2**62}, 1, 1, id, pg_backend_pid(), 'w' || n, 'ear', '{{{QUEUE}}}', '{{{TASK}}}'
    FROM {SCHEMA}.namespace, generate_series(1, 500) AS n;
"""
EXPLAIN = {
    "log_min_duration": "0",
    "log_nested_statements": "on",
    "log_analyze": "on",
    "log_format": "json",
    "log_level": "notice",
}


class Explained:
    """A session on one connection whose server tells every plan that it follows."""

    def __init__(self, jobs: PostgresJobs, connection: Any) -> None:
        self.jobs = jobs
        self.plans: list[dict[str, Any]] = []
        connection.add_log_listener(self._heard)

    def _heard(self, _connection: Any, message: Any) -> None:
        _, found, plan = message.message.partition("plan:\n")
        if found:
            self.plans.append(json.loads(plan))

    async def ticked(self, moves: list[JobRecord], seq: int) -> list[JobRecord]:
        self.plans.clear()
        done = [ended(job, elapsed=1) for job in moves]
        tick = Tick(worker="ann", seq=seq, moves=done, want=wanted(limit=BATCH))
        return (await self.jobs.tick(tick)).claimed

    def nodes(self) -> Iterator[dict[str, Any]]:
        """Every step of every plan, with the text of its statement."""
        for plan in self.plans:
            yield from _steps(plan["Plan"], plan["Query Text"])


def _steps(node: dict[str, Any], text: str) -> Iterator[dict[str, Any]]:
    yield {**node, "Text": text}
    for child in node.get("Plans", ()):
        yield from _steps(child, text)


@pytest.fixture(params=["never analyzed", "analyzed when empty", "analyzed when full"])
def statistics(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def explaining(url: str, statistics: str) -> AsyncGenerator[tuple[PostgresSession, Explained, Any]]:
    """A session with many jobs, some statistics, and its plans."""
    store = PostgresStore.from_url(f"{url}?schema={SCHEMA}", auto_migrate=True)
    session = await store.connect("n")
    connection = await asyncpg.connect(url)
    try:
        await session.fleet.register(worker_record("ann"), LONG)
        if statistics == "analyzed when empty":
            await connection.execute("ANALYZE")
        for number in range(0, MANY, 500):
            await session.jobs.add([_job(number + one) for one in range(500)])
        if statistics == "analyzed when full":
            await connection.execute("ANALYZE")
        await connection.execute("LOAD 'auto_explain'")
        for setting, value in EXPLAIN.items():
            await connection.execute(f"SET auto_explain.{setting} = '{value}'")
        await session.jobs._database._calls.close(1)
        session.jobs._database._calls = Pool(lambda: asyncio.sleep(0, connection), most=1)
        yield session, Explained(session.jobs, connection), connection
    finally:
        await session.close()
        await store.close()


async def test_every_look_up_of_a_tick_is_a_probe_of_an_index(
    postgres_database: str, statistics: str
) -> None:
    async with explaining(postgres_database, statistics) as (_, explained, _):
        held = await explained.ticked([], 1)
        for seq in range(2, 5):
            held = await explained.ticked(held, seq)
            assert len(held) == BATCH
        _check(list(explained.nodes()))


async def test_who_adds_a_job_looks_at_the_first_idle_worker_and_at_no_job_twice(
    postgres_database: str, statistics: str
) -> None:
    async with explaining(postgres_database, statistics) as (session, explained, connection):
        await connection.execute(IDLE)
        for is_handed in (False, True):
            explained.plans.clear()
            # What waits already has another priority: it comes first, or it does not.
            job = new_job(priority=-1 if is_handed else 1, fresh=True)
            await session.jobs.add([job])
            nodes = [node for node in explained.nodes() if "Relation Name" in node]
            [stored] = await session.jobs.states([job.id])
            assert stored is not None
            assert (stored.worker is not None) == is_handed
            assert not [node for node in nodes if node["Node Type"] in {"Seq Scan", "Bitmap Heap Scan"}]
            waiting = [node for node in nodes if node.get("Index Name") == "job_ready"]
            assert [node["Actual Rows"] for node in waiting] == [0 if is_handed else 1]
            looked = [node for node in nodes if node["Relation Name"] == "worker"]
            assert [node["Actual Loops"] for node in looked] == [1]


async def test_what_operators_look_at_goes_from_name_to_name(postgres_database: str, statistics: str) -> None:
    async with explaining(postgres_database, statistics) as (session, explained, _):
        for look in (
            session.fleet.queues,
            lambda: session.jobs.count(200),
            lambda: session.locks.held("", 9),
        ):
            explained.plans.clear()
            await look()
            nodes = [node for node in explained.nodes() if node.get("Relation Name") == "job"]
            nodes = [node for node in nodes if node["Node Type"] != "Sample Scan"]
            assert not [node for node in nodes if node["Node Type"] == "Seq Scan"]
            rows = [node["Actual Rows"] * node["Actual Loops"] for node in nodes]
            assert sum(rows) < MANY / 2, "jobs are looked at one by one"


async def test_many_jobs_are_estimated_and_few_are_counted(postgres_database: str) -> None:
    store = PostgresStore.from_url(f"{postgres_database}?schema={SCHEMA}", auto_migrate=True)
    session = await store.connect("n")
    try:
        await session.jobs.add([new_job(queue="few", delay=LONG) for _ in range(7)])
        for _ in range(6):
            await session.jobs.add([new_job(queue="many", delay=LONG * (n % 2)) for n in range(500)])
        few, many = await session.jobs.count(400)
        assert (few.queue, few.count, few.due, few.exact) == ("few", 7, 0, True)
        assert not many.exact
        # The whole table is smaller than a sample.
        assert (many.count, many.due) == (3_000, 1_500)
        assert [(each.count, each.exact) for each in await session.jobs.count()] == [(7, True), (3_000, True)]
    finally:
        await session.close()
        await store.close()


def _job(number: int) -> NewJob:
    keyed = {"key": f"k{number}"} if number % 3 == 0 else {}
    return new_job(delay=LONG if number % 5 == 0 else 0, **keyed)


def _check(nodes: list[dict[str, Any]]) -> None:
    scans = [node for node in nodes if "Scan" in node["Node Type"] and "Relation Name" in node]
    kinds = {(node["Node Type"], node["Relation Name"]) for node in scans}
    assert not [kind for kind in kinds if kind[0] in {"Seq Scan", "Bitmap Heap Scan"}]
    assert not [node for node in nodes if node.get("Rows Removed by Join Filter", 0) > BATCH]

    claim = [
        node
        for node in scans
        if node["Text"].lstrip().startswith("UPDATE")
        and "SKIP LOCKED" in node["Text"]
        and node["Relation Name"] == "job"
    ]
    by_index = [
        node for node in claim if node["Node Type"] == "Index Scan" and node["Index Name"] == "job_ready"
    ]
    assert [node["Actual Rows"] for node in by_index] == [BATCH]
    assert {node["Node Type"] for node in claim} == {"Index Scan", "Tid Scan"}

    completed = [node for node in scans if "AS (\n        INSERT INTO" in node["Text"]]
    probes = {node["Index Name"]: node["Actual Loops"] for node in completed if "Index Name" in node}
    assert probes["job_pkey"] == BATCH
    assert all(loops <= BATCH for loops in probes.values())
    assert len([node for node in nodes if node["Node Type"] == "LockRows"]) == 1
