"""What is special to schedules on PostgreSQL: terms, locks of others, and query plans."""

import asyncio
from typing import Any

import asyncpg
import pytest

from holdfast.model.records import LockHold, LockWish, Verdict
from holdfast.model.scheduling import ScheduleWrite, Term
from holdfast.model.timing import SECOND
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres.pool import Pool
from holdfast.stores.postgres.schedules import _arrays
from holdfast.stores.postgres.store import PostgresSession
from holdfast.testing.conformance.case import new_job
from holdfast.testing.conformance.schedules import names, write
from tests.chaos.waiting import until_async
from tests.postgres.test_locks import WAITING, connection, session
from tests.postgres.test_plans import EXPLAIN, Explained

ACCEPTED, REFUSED = Verdict.ACCEPTED, Verdict.REFUSED
LEADER = "leader"
ENDED = "SELECT until <= holdfast.now_v1() FROM holdfast.lock"
FIRE = "SELECT holdfast.schedule_write_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, NULL, NULL)"
NAMESPACE = 1
MANY = 600
DUE = 200


async def lead(ours: PostgresSession, owner: str = "ann", ttl: int = 60 * SECOND) -> Term:
    token = (await ours.locks.acquire(LockWish(name=LEADER, owner=owner, ttl=ttl, place=0))).token
    assert token is not None
    return Term(lock=LEADER, owner=owner, token=token)


async def fire(opened: Any, term: Term, *writes: ScheduleWrite) -> Any:
    """Writes as part of a transaction that is not over yet."""
    return await opened.fetchval(FIRE, NAMESPACE, term.lock, term.owner, term.token, *_arrays(writes))


async def test_nobody_else_leads_before_a_firing_under_the_old_term_is_over(postgres_database: str) -> None:
    async with (
        session(postgres_database) as ours,
        session(postgres_database) as theirs,
        connection(postgres_database) as slow,
        connection(postgres_database) as watch,
    ):
        term = await lead(ours, ttl=2 * SECOND)
        async with slow.transaction():
            assert await fire(slow, term, write()) == []
            await until_async(lambda: watch.fetchval(ENDED), "the lease has ended")
            asking = asyncio.create_task(lead(theirs, "bob"))
            await until_async(lambda: watch.fetchval(WAITING), "the next leader waits")
            assert not asking.done()
        later = await asking
        assert later.token > term.token
        assert names(await theirs.schedules.list("", 9)) == ["nightly"]
        assert await ours.schedules.write([write(version=1)], term) is None
        assert await theirs.schedules.write([write(version=1)], later) == [ACCEPTED]


async def test_a_lock_is_not_freed_before_a_firing_under_it_is_over(postgres_database: str) -> None:
    async with (
        session(postgres_database) as ours,
        connection(postgres_database) as slow,
        connection(postgres_database) as watch,
    ):
        term = await lead(ours)
        async with slow.transaction():
            assert await fire(slow, term, write()) == []
            resigning = asyncio.create_task(ours.locks.release(LEADER, "ann", term.token))
            await until_async(lambda: watch.fetchval(WAITING), "the release waits")
            assert not resigning.done()
        await resigning
        assert await ours.schedules.write([write(version=1)], term) is None


async def test_a_leader_keeps_its_lock_while_a_firing_takes_long(postgres_database: str) -> None:
    async with session(postgres_database) as ours, connection(postgres_database) as slow:
        term = await lead(ours)
        async with slow.transaction():
            assert await fire(slow, term, write()) == []
            hold = LockHold(name=LEADER, owner="ann", token=term.token, ttl=60 * SECOND)
            assert await ours.locks.renew([hold]) == [True]


async def test_a_firing_that_comes_while_another_takes_the_lock_is_none(postgres_database: str) -> None:
    async with (
        session(postgres_database) as ours,
        connection(postgres_database) as slow,
        connection(postgres_database) as watch,
    ):
        term = await lead(ours, ttl=SECOND // 5)
        await until_async(lambda: watch.fetchval(ENDED), "the lease has ended")
        acquire = "SELECT token FROM holdfast.lock_acquire_v1($1, $2, 'bob', $3, 0, '')"
        async with slow.transaction():
            assert await slow.fetchval(acquire, NAMESPACE, LEADER, 60 * SECOND) > term.token
            firing = asyncio.create_task(ours.schedules.write([write(jobs=(new_job(),))], term))
            await until_async(lambda: watch.fetchval(WAITING), "the firing waits")
        assert await firing is None
        assert (await ours.schedules.list("", 9)).records == []
        assert await ours.jobs.count() == []


async def test_a_schedule_whose_key_another_transaction_holds_for_long_is_refused_alone(
    postgres_database: str,
) -> None:
    async with session(postgres_database) as ours, connection(postgres_database) as slow:
        await ours.schedules.write([write("a"), write("b")])
        first, second = new_job(), new_job()
        writes = [
            write("b", version=1, jobs=(first,)),
            write("a", version=1, jobs=(new_job(key="k"),)),
            write("c", jobs=(second,)),
            write("a", version=9),
        ]
        async with slow.transaction():
            take = "INSERT INTO holdfast.key (ns, key, job) VALUES ($1, 'k', gen_random_uuid())"
            await slow.execute(take, NAMESPACE)
            told = await ours.schedules.write(writes)
        assert told == [ACCEPTED, REFUSED, ACCEPTED, REFUSED]
        stored = {record.name: record.version for record in (await ours.schedules.list("", 9)).records}
        assert stored == {"a": 1, "b": 2, "c": 1}
        assert all(await ours.jobs.states([first.id, second.id]))
        assert sum(count.count for count in await ours.jobs.count()) == 2


@pytest.mark.parametrize("statistics", ["never analyzed", "analyzed when empty", "analyzed when full"])
async def test_every_look_up_of_schedules_is_a_probe_of_an_index(
    postgres_database: str, statistics: str
) -> None:
    store = PostgresStore.from_url(f"{postgres_database}?schema=plans", auto_migrate=True)
    ours = await store.connect("n")
    opened = await asyncpg.connect(postgres_database)
    try:
        if statistics == "analyzed when empty":
            await opened.execute("ANALYZE")
        term = await lead(ours)
        waits = [new_job() for _ in range(DUE)]
        await ours.schedules.write(
            [write(f"s{n:03}", look_at=n if n < DUE else 2**62, jobs=(new_job(),)) for n in range(MANY)]
        )
        await ours.schedules.write([write(job.id, job=job.id, waits=True, jobs=(job,)) for job in waits])
        if statistics == "analyzed when full":
            await opened.execute("ANALYZE")
        await opened.execute("LOAD 'auto_explain'")
        for setting, value in EXPLAIN.items():
            await opened.execute(f"SET auto_explain.{setting} = '{value}'")
        await ours.schedules._database._calls.close(1)
        ours.schedules._database._calls = Pool(lambda: asyncio.sleep(0, opened), most=1)
        # The driver learns types at their first use.
        await ours.schedules.write([write("other", jobs=(new_job(),))], term)
        await ours.schedules.due(1)
        explained = Explained(ours.jobs, opened)
        told = await ours.schedules.due(DUE + 1)
        assert len(told.records) == DUE
        writes = [_fired(record.name, record.version) for record in told.records]
        assert await ours.schedules.write(writes, term) == [ACCEPTED] * DUE
        _check(list(explained.nodes()))
    finally:
        await ours.close()
        await store.close()


def _fired(name: str, version: int) -> ScheduleWrite:
    job = new_job()
    return write(name, version=version, look_at=2**62, job=job.id, jobs=(job,))


def _check(nodes: list[dict[str, Any]]) -> None:
    scans = [node for node in nodes if "Scan" in node["Node Type"] and "Relation Name" in node]
    assert {node["Node Type"] for node in scans} <= {"Index Scan", "Index Only Scan"}
    looked = {(node["Relation Name"], node["Index Name"]) for node in scans}
    for index in ("schedule_look", "schedule_waits", "schedule_pkey"):
        assert ("schedule", index) in looked
    assert ("job", "job_pkey") in looked
    for node in scans:
        if node["Relation Name"] == "schedule":
            assert node["Actual Rows"] * node["Actual Loops"] <= DUE + 1
        else:
            assert node["Actual Rows"] <= 1
            assert node.get("Rows Removed by Filter", 0) <= 1
    assert not [node for node in nodes if node.get("Rows Removed by Join Filter", 0) > 1]
