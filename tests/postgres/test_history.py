"""Finished jobs by day: they land in their day, old days go whole, and what must stay is still found."""

import asyncio
import secrets
import time
from uuid import uuid4

import asyncpg
import pytest

from holdfast.model.lifecycle import DEAD_LETTERED, REPLAYED, RETRIED, Ending, State
from holdfast.model.records import Edit, Query
from holdfast.stores.postgres import PostgresStore
from holdfast.testing.conformance.case import new_job
from tests.postgres.archive import DAY, an_archive, prune


async def test_jobs_land_in_their_day_and_days_are_made_ahead(postgres_url: str) -> None:
    async with an_archive(postgres_url) as (archive, session):
        assert len(archive.days()) == 3
        [job] = await archive.finish(session)
        assert archive.partition(job) == archive.today() == archive.days()[0]
        archive.pass_days(2)
        await prune(session)
        assert len(archive.days()) == 5
        [later] = await archive.finish(session)
        assert archive.partition(later) == archive.today() == archive.days()[2]


async def test_an_old_day_goes_whole_and_counts_stay_right(postgres_url: str) -> None:
    async with an_archive(postgres_url) as (archive, session):
        first = archive.today()
        old = await archive.finish(session, 20)
        archive.pass_days(2)
        new = await archive.finish(session, 5, queue="mail")
        archive.pass_days(5.4)
        assert await prune(session) == 0
        await archive.agree(session)
        archive.pass_days(0.2)
        assert await prune(session) == 20
        assert first not in archive.days()
        await archive.agree(session)
        assert await session.jobs.states([job.id for job in old]) == [None] * 20
        assert await session.jobs.history(old[0].id) == []
        assert None not in await session.jobs.states([job.id for job in new])
        archive.pass_days(2)
        assert await prune(session) == 5
        assert await session.jobs.count() == []
        assert await prune(session) == 0


async def test_what_must_stay_survives_its_day(postgres_url: str) -> None:
    async with an_archive(postgres_url) as (archive, session):
        names = ["dead", "late", "retried", "plain", "live", "waiting"]
        jobs = {name: new_job(id=archive.new_id(), tags=(name,)) for name in names}
        jobs["waiting"] = new_job(id=archive.new_id(), delay=30 * DAY)
        await session.jobs.add(list(jobs.values()))
        claimed = {job.id: job for job in await archive.claim(session)}
        held = {name: claimed[job.id] for name, job in jobs.items() if name != "waiting"}
        await archive.end(
            session, held["dead"], DEAD_LETTERED, Ending.FAILED, failures=1, reason="no", error="no"
        )
        await archive.end(session, held["retried"], RETRIED, Ending.RETRY, failures=1, delay=20 * DAY)
        await archive.end(session, held["plain"])
        await archive.end(session, held["live"], RETRIED, Ending.RETRY, failures=1, delay=0)
        [again] = await archive.claim(session)
        archive.pass_days(6)
        await archive.end(session, held["late"])
        assert archive.partition(held["late"]) == archive.days()[0]
        archive.pass_days(3)

        assert await prune(session) == 1
        assert archive.partition(jobs["dead"].id) == archive.partition(jobs["late"].id) == "other"
        await archive.agree(session)
        left = {job.id: job.state.value for job in await session.jobs.find(Query(limit=10))}
        expected = ["dlq", "success", "retry", None, "claimed", "scheduled"]
        assert [left.get(job.id) for job in jobs.values()] == expected
        for name, count in zip(names, [1, 1, 1, 0, 1, 0], strict=True):
            assert len(await session.jobs.history(jobs[name].id)) == count, name
        stored = await session.jobs.get(jobs["dead"].id)
        assert stored is not None
        assert (stored.error, stored.failures) == ("no", 1)
        assert [job.id for job in await session.jobs.find(Query(states=frozenset({State.DLQ})))] == [
            jobs["dead"].id
        ]

        # They go on from there as if nothing had happened.
        assert await session.jobs.edit(jobs["dead"].id, stored.version, Edit(path=REPLAYED, delay=0))
        await archive.end(session, again)
        [replayed] = await archive.claim(session)
        await archive.end(session, replayed)
        assert len(await session.jobs.history(replayed.id)) == 2
        await archive.agree(session)
        archive.pass_days(8)
        assert await prune(session) == 3
        await archive.agree(session)


async def test_each_namespace_has_its_own_retention(postgres_url: str) -> None:
    async with an_archive(postgres_url) as (archive, short):
        long, silent = await archive.open("long"), await archive.open("silent")
        first = archive.today()
        for session, jobs in ((short, 7), (long, 3), (silent, 1)):
            await archive.finish(session, jobs)
        archive.pass_days(9)
        assert await prune(long, 20 * DAY) == 0
        assert await prune(short) == 7  # row by row: others keep the day
        assert first in archive.days()
        archive.pass_days(20)
        assert await prune(short) == 0
        assert await prune(long, 20 * DAY) == 3
        assert first in archive.days()
        assert await prune(silent) == 1
        assert first not in archive.days()
        for session in (short, long, silent):
            assert await session.jobs.count() == []


async def test_the_same_id_in_two_namespaces_lives_and_goes_with_each(postgres_url: str) -> None:
    async with an_archive(postgres_url) as (archive, here):
        there = await archive.open("there")
        same = archive.new_id()
        await archive.finish(here, id=same)
        await there.jobs.add([new_job(id=same)])
        [job] = await archive.claim(there)
        await archive.end(there, job, DEAD_LETTERED, Ending.FAILED)
        archive.pass_days(9)
        await prune(there, turns=1)
        assert await prune(here) == 1
        assert archive.partition(same) == "other"
        assert await here.jobs.get(same) is None
        assert await here.jobs.history(same) == []
        assert len(await there.jobs.history(same)) == 1
        for session in (here, there):
            await archive.agree(session)


async def test_a_day_of_which_too_much_stays_is_emptied_and_holds_up_no_other(postgres_url: str) -> None:
    async with an_archive(postgres_url) as (archive, session):
        first = archive.today()
        await archive.finish(session, 3)
        archive.copy(2001, state=6)
        await archive.agree(session)
        archive.pass_days(2)
        await prune(session)
        await archive.finish(session, 4)
        archive.pass_days(9)
        assert await prune(session) == 7
        assert first in archive.days()
        assert archive.today() in archive.days()
        assert len(await session.jobs.find(Query(states=frozenset({State.SUCCESS})))) == 0
        await archive.agree(session)


async def test_retention_of_less_than_a_day_goes_by_rows(postgres_url: str) -> None:
    async with an_archive(postgres_url) as (archive, session):
        old = await archive.finish(session, 3)
        archive.clock.advance(1800)
        new = await archive.finish(session, 2)
        archive.clock.advance(1801)
        assert await session.jobs.prune(DAY // 24, 2) == 2
        assert await session.jobs.prune(DAY // 24, 2) == 1
        assert await session.jobs.prune(DAY // 24, 2) == 0
        assert await session.jobs.states([job.id for job in old]) == [None] * 3
        assert None not in await session.jobs.states([job.id for job in new])
        await archive.agree(session)


async def test_without_days_and_with_any_ids_the_rest_keeps_all(postgres_url: str) -> None:
    async with an_archive(postgres_url) as (archive, session):
        archive.pass_days(30)  # nobody was there to make days
        unmade = await archive.finish(session, 2)
        random = await archive.finish(session, id=str(uuid4()))
        zero = await archive.finish(session, id="00000000-0000-0000-0000-000000000001")
        jobs = [*unmade, *random, *zero]
        assert {archive.partition(job) for job in jobs} == {"other"}
        await prune(session)
        assert archive.today() not in archive.days()  # the rest has rows of it, so it stays there
        assert len(archive.days()) >= 2
        jobs += await archive.finish(session)
        for job in jobs:
            assert (await session.jobs.get(job.id)).state is State.SUCCESS  # type: ignore[union-attr]
            assert len(await session.jobs.history(job.id)) == 1
        await archive.agree(session)
        archive.pass_days(8)
        assert await prune(session) == len(jobs)
        assert await session.jobs.count() == []


async def test_a_transaction_that_has_the_tables_delays_the_drop_and_stops_nobody(postgres_url: str) -> None:
    async with an_archive(postgres_url) as (archive, session):
        first = archive.today()
        await archive.finish(session, 10)
        archive.pass_days(9)
        worst = 0.0
        connection = await asyncpg.connect(postgres_url)
        try:
            async with connection.transaction():
                await connection.fetch(f"SELECT count(*) FROM {archive.schema}.jobs")
                over = asyncio.Event()

                async def work() -> float:
                    other = await archive.open("busy")
                    longest = 0.0
                    while not over.is_set():
                        begin = time.perf_counter()
                        await archive.finish(other)
                        longest = max(longest, (time.perf_counter() - begin) / 3)
                    return longest

                task = asyncio.create_task(work())
                removed = await prune(session, turns=2)
                archive.clock.advance(61)
                removed += await prune(session, turns=2)
                over.set()
                worst = await task
                assert removed == 0
                assert first in archive.days()
        finally:
            await connection.close()
        assert worst < 1.5  # a lock is waited for 50 ms; the rest is a busy machine
        assert await prune(session) == 0  # not at once: a minute later
        archive.clock.advance(61)
        assert await prune(session) == 10
        assert first not in archive.days()
        await archive.agree(session)


async def test_janitors_who_come_at_once_drop_a_day_once(postgres_url: str) -> None:
    async with an_archive(postgres_url) as (archive, session):
        await archive.finish(session, 10)
        archive.pass_days(9)
        others = [await archive.open() for _ in range(4)]
        removed = await asyncio.gather(*(prune(each, turns=3) for each in others))
        archive.clock.advance(61)
        assert sum(removed) + await prune(session) == 10
        await archive.agree(session)


async def test_jobs_are_found_by_indexes(postgres_url: str) -> None:
    async with an_archive(postgres_url) as (archive, session):
        await archive.finish(session, 3)
        archive.copy(20_000, state=3)
        archive.sql("ANALYZE holdfast.done, holdfast.job")
        known = session.jobs._queries  # type: ignore[attr-defined]
        some = archive.new_id()
        plans = {
            "by id": (known.by_id, f"ARRAY['{some}']"),
            "history": (known.history, f"'{some}'"),
            "page": (
                known.find.format(source="jobs", conditions=f" AND id < '{some}'", limit=50),
                "NULL",
            ),
        }
        for name, (sql, value) in plans.items():
            text = sql.replace("$1", "1").replace("$2", value)
            plan = "\n".join(line for (line,) in archive.sql(f"EXPLAIN {text}"))
            assert f"done_{archive.today()}" in plan, name
            assert f"Seq Scan on done_{archive.today()}" not in plan, plan
            if name != "page":
                assert plan.count(" on done_") == 1, plan


@pytest.mark.parametrize("options", ["", "&prefix=hf_"])
async def test_days_are_made_and_dropped_wherever_the_tables_are(postgres_url: str, options: str) -> None:
    schema = f"history_{secrets.token_hex(4)}"
    store = PostgresStore.from_url(f"{postgres_url}?schema={schema}{options}", auto_migrate=True)
    session = await store.connect("shop")
    prefix = options.rpartition("=")[2]
    connection = await asyncpg.connect(postgres_url)
    try:
        name = f"{schema}.{prefix}"
        await connection.execute(f"SELECT {name}make_days_v1({name}now_v1() - 9 * 86400000000)")
        assert await connection.fetchval(f"SELECT count(*) FROM {name}day") == 6
        await prune(session)
        assert await connection.fetchval(f"SELECT count(*) FROM {name}day") == 4
    finally:
        await session.close()
        await store.close()
        await connection.execute(f"DROP SCHEMA {schema} CASCADE")
        await connection.close()
