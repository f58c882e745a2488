"""Flow beside the rest: who may use it, what is swept up, and who is told."""

import asyncio

import asyncpg
import pytest
from msgspec.structs import replace

from holdfast.model.errors import SchemaMismatch
from holdfast.model.flow import LimitRecord, NewFlow, Scope
from holdfast.model.lifecycle import FAILED_FOR_GOOD, Ending
from holdfast.model.records import JobRecord, Tick, Ticked
from holdfast.model.timing import SECOND
from holdfast.stores.postgres import PostgresStore, schema
from holdfast.stores.postgres.store import PostgresSession
from holdfast.testing.conformance.case import LONG, TASK, ended, new_id, new_job, wanted, worker_record
from tests.postgres.flow_support import NAMESPACE, SCHEMA, after, flowing, ids, keyed, limit

ROLES = "flowing"
LOGINS = """
    CREATE ROLE {0}_maker LOGIN PASSWORD 'x'; GRANT {0}_producer TO {0}_maker;
    CREATE ROLE {0}_doer LOGIN PASSWORD 'x'; GRANT {0}_worker TO {0}_doer;
"""


async def test_a_namespace_that_uses_no_flow_writes_nothing_for_it(postgres_database: str) -> None:
    async with flowing(postgres_database) as at:
        await at.flow.put([LimitRecord(scope=Scope.KEY, name="heavy", weight=3.0)])
        await at.add(keyed("a"), new_job(flow=NewFlow(expires=LONG)), new_job())
        held = await at.claim()
        assert [job.flow and job.flow.limit_key for job in held] == ["a", None, None]
        await at.finish(*held)
        for table in ("flowing", "note", "link", "halt", "behind"):
            assert await at.count(table) == 0


async def test_one_that_is_put_before_a_job_which_missed_it_changes_nothing_there(
    postgres_database: str,
) -> None:
    async with flowing(postgres_database) as at:
        missing = new_job()
        [waiting] = await at.add(after(missing))
        await at.add(replace(missing, flow=NewFlow(before=waiting.id)))
        awaited = await at.flow.awaited(waiting.id)
        assert awaited is not None
        assert (awaited.total, awaited.pending, awaited.unmet) == (1, 0, 1)


async def test_one_that_waits_for_nobody_gets_nobody_before_it_by_its_own_call(
    postgres_database: str,
) -> None:
    async with flowing(postgres_database) as at:
        missing = new_job()
        first = after(missing)
        await at.add(first, new_job(flow=NewFlow(before=first.id)))
        awaited = await at.flow.awaited(first.id)
        assert awaited is not None
        assert (awaited.total, awaited.pending, awaited.unmet) == (1, 0, 1)
        live = new_job()
        second = after(live)
        await at.add(live, second, new_job(flow=NewFlow(before=second.id)))
        awaited = await at.flow.awaited(second.id)
        assert awaited is not None
        assert (awaited.total, awaited.pending) == (2, 2)


async def test_who_is_freed_for_others_is_told_to_them(postgres_database: str) -> None:
    async with flowing(postgres_database) as at:
        other = await at.store.connect(NAMESPACE)
        heard = asyncio.Event()
        await at.flow.put([limit(1, Scope.EACH_KEY)])
        await at.add(keyed("a"), keyed("a"))
        held = await at.claim()
        assert await at.claim() == []
        stop = other.wakeups.listen(heard.set)
        heard.clear()
        await at.tick([ended(job) for job in held])
        async with asyncio.timeout(5):
            await heard.wait()
        stop()
        await other.close()


async def test_notes_links_and_halts_that_nobody_needs_are_swept_up(postgres_database: str) -> None:
    async with flowing(postgres_database) as at:
        halting = new_job(flow=NewFlow(sequence="s", halts=True))
        following = new_job(flow=NewFlow(sequence="s"))
        await at.add(halting, following)
        [job] = await at.claim()
        await at.tick([ended(job, FAILED_FOR_GOOD, Ending.FAILED, failures=1)])
        [waiting] = await at.add(after(new_job()))
        [claimed] = await at.claim()
        assert claimed.id == waiting.id
        await at.finish(claimed)
        assert (await at.count("halt"), await at.count("link")) == (1, 1)
        await at.connection.execute(f"UPDATE {SCHEMA}.done SET finished = finished - {3 * SECOND}")
        assert await at.jobs.prune(SECOND, 100) == 2
        # The job that halted the sequence is gone, and with it the halt.
        assert ids(await at.claim()) == [following.id]
        assert [await at.count(table) for table in ("halt", "link", "note")] == [0, 0, 0]
        await at.connection.execute(
            f"INSERT INTO {SCHEMA}.note (ns, job, is_new) SELECT 4711, gen_random_uuid(), false"
        )
        await at.connection.execute(f"SELECT {SCHEMA}.sweep_flow_v1(4711, 0, 10)")
        assert await at.count("note") == 0


async def test_links_of_jobs_that_were_dropped_with_their_day_are_swept_up(postgres_database: str) -> None:
    async with flowing(postgres_database) as at:
        sql = (
            f"INSERT INTO {SCHEMA}.link (ns, waiter, job, state) SELECT id, $1, $2, 3 FROM {SCHEMA}.namespace"
        )
        await at.connection.execute(sql, "018f0000-0000-7000-8000-000000000000", new_id())
        [kept] = await at.add(after(new_job()))
        await at.jobs.prune(LONG, 100)
        rows = await at.connection.fetch(f"SELECT waiter::text FROM {SCHEMA}.link")
        assert [row[0] for row in rows] == [kept.id]


async def test_used_up_rates_and_ranks_are_forgotten_when_they_say_nothing(postgres_database: str) -> None:
    async with flowing(postgres_database) as at:
        await at.flow.put([LimitRecord(scope=Scope.TASK, name=TASK, rate=1_000_000, period=SECOND)])
        await at.add(new_job(flow=NewFlow(fair_key="a")))
        held = await at.claim()
        await at.finish(*held)
        assert (await at.count("gate"), await at.count("fair")) == (1, 1)
        await at.connection.execute(f"UPDATE {SCHEMA}.fair SET last = 1")
        await at.jobs.prune(LONG, 100)
        assert await at.count("fair") == 0
        assert await at.count("gate") <= 1


async def test_an_open_transaction_that_adds_for_a_fair_key_keeps_nobody_waiting(
    postgres_database: str,
) -> None:
    async with flowing(postgres_database) as at:
        fair = [new_job(flow=NewFlow(fair_key="a")) for _ in range(3)]
        await at.begin()
        await at.add_in(fair[0])
        async with asyncio.timeout(5):
            await at.add(fair[1])
            await at.add(fair[2])
        await at.commit()
        assert set(ids(await at.claim())) == set(ids(fair))


async def test_workers_use_flow_and_producers_add_what_is_held_back(postgres_database: str) -> None:
    store = PostgresStore.from_url(f"{postgres_database}?schema={SCHEMA}")
    await store.migrations.apply()
    prefix = "f" + postgres_database.rpartition("_")[2][:12]
    connection = await asyncpg.connect(postgres_database)
    await connection.execute(store.migrations.roles_as_sql(prefix) + LOGINS.format(prefix))
    place = postgres_database.partition("@")[2]
    sessions = [
        await PostgresStore.from_url(f"postgresql://{prefix}_{who}:x@{place}?schema={SCHEMA}").connect("n")
        for who in ("maker", "doer")
    ]
    try:
        maker, doer = sessions
        first = keyed("a")
        await maker.jobs.add([first, keyed("a"), new_job(flow=NewFlow(sequence="s", fair_key="f"))])
        await maker.jobs.add([new_job(flow=NewFlow(after=(first.id,)))])
        await doer.fleet.register(worker_record("ann"), LONG)
        await doer.flow.put([limit(1, Scope.EACH_KEY)])
        done = 0
        held = (await _tick(doer, 1, [])).claimed
        for seq in range(2, 9):
            done += len(held)
            held = (await _tick(doer, seq, held)).claimed
        assert done == 4
        await doer.flow.proceed("s")
        await doer.flow.remove(Scope.EACH_KEY, TASK)
        await doer.jobs.prune(LONG, 10)
        with pytest.raises(Exception, match="permission denied"):
            await maker.flow.put([limit(1)])
    finally:
        for session in sessions:
            await session.close()
        await connection.close()


async def _tick(session: PostgresSession, seq: int, held: list[JobRecord]) -> Ticked:
    return await session.jobs.tick(
        Tick(worker="ann", seq=seq, moves=[ended(job) for job in held], want=wanted(limit=10))
    )


async def test_a_client_that_does_not_know_flow_is_refused(
    postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresStore.from_url(postgres_database)
    await store.migrations.apply()
    monkeypatch.setattr(schema, "CLIENT", 12)
    with pytest.raises(SchemaMismatch, match="needs Holdfast with schema 13 or newer"):
        await store.connect("n")
