"""Jobs that are held back, and somebody who ends, adds or limits others at the same moment."""

import asyncio
import random

import asyncpg
import pytest

from holdfast.model.flow import NewFlow, Scope, gate
from holdfast.model.records import JobRecord, Tick, Verdict
from holdfast.testing.conformance.case import LONG, QUEUE, TASK, ended, new_job, wanted, worker_record
from tests.chaos.waiting import until_async
from tests.postgres.flow_support import NAMESPACE, SCHEMA, Flows, after, flowing, ids, in_turn, keyed, limit

ISOLATIONS = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]
WAITING = """SELECT count(*) FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND datname = current_database()"""

DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"

# Whoever ends a job in a transaction is stopped just before it has the job's row.
HELD_UP = f"""
    ALTER FUNCTION {SCHEMA}.move_v1 RENAME TO move_at_last;
    CREATE FUNCTION {SCHEMA}.move_v1(p_ns integer, p_worker text, p_now bigint, p_move jsonb) RETURNS boolean
    LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_advisory_xact_lock_shared(1);
        RETURN {SCHEMA}.move_at_last(p_ns, p_worker, p_now, p_move);
    END
    $$
"""


@pytest.fixture(params=ISOLATIONS)
def isolation(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_whoever_ends_a_job_in_a_transaction_frees_those_that_wait_for_it(
    postgres_database: str, isolation: str
) -> None:
    async with flowing(postgres_database) as at:
        await at.add()
        [job] = await at.claim()
        [waiting] = await at.add(after(job))
        await at.begin(isolation)
        await at.finish_in(job)
        assert await at.claim() == []
        await at.commit()
        assert ids(await at.claim()) == [waiting.id]
        assert await at.count("note") == 0


async def test_a_job_that_ends_in_a_transaction_which_knows_nothing_of_flow_frees_as_well(
    postgres_database: str, isolation: str
) -> None:
    async with flowing(postgres_database) as at:
        await at.add()
        [job] = await at.claim()
        await at.begin(isolation)
        await at.finish_in(job)
        # The first who waits for anything in this namespace, while that transaction is open.
        [waiting] = await at.add(after(job))
        assert await at.claim() == []
        await at.commit()
        assert ids(await at.claim()) == [waiting.id]


async def test_a_tick_whose_children_are_the_first_that_wait_claims_as_well(postgres_database: str) -> None:
    async with flowing(postgres_database) as at:
        await at.add()
        [job] = await at.claim()
        [other] = await at.add()
        end = ended(job)
        child = after(job)
        end.children = (child,)
        ticked = await at.tick([end], wanted(limit=10))
        assert sorted(ids(ticked.claimed)) == sorted([other.id, child.id])


async def test_a_snapshot_from_before_anybody_waited_tells_that_the_job_ended(postgres_database: str) -> None:
    async with flowing(postgres_database) as at:
        await at.add()
        [job] = await at.claim()
        await at.begin("REPEATABLE READ")
        [waiting] = await at.add(after(job))
        assert await at.claim() == []
        await at.finish_in(job)
        await at.commit()
        assert ids(await at.claim()) == [waiting.id]


async def test_room_that_is_made_in_a_transaction_is_taken_when_it_is_committed(
    postgres_database: str, isolation: str
) -> None:
    async with flowing(postgres_database) as at:
        jobs = await at.add(*(new_job() for _ in range(3)))
        [first] = await at.claim(limit=1)
        await at.begin(isolation)
        await at.finish_in(first)
        await at.flow.put([limit(1)])
        assert await at.claim() == []
        await at.commit()
        assert ids(await at.claim()) == [jobs[1].id]


async def test_room_that_is_made_by_who_asked_before_there_were_limits_is_taken(
    postgres_database: str,
) -> None:
    async with flowing(postgres_database) as at:
        jobs = await at.add(*(new_job() for _ in range(3)))
        [first] = await at.claim(limit=1)
        operator = await asyncpg.connect(postgres_database)
        await operator.execute(HELD_UP)
        await operator.execute("SELECT pg_advisory_lock(1)")
        await at.begin()
        finishing = asyncio.ensure_future(at.finish_in(first))
        async with asyncio.timeout(20):
            await until_async(lambda: _waits(at), "it waits")
            await at.flow.put([limit(1)])
            assert await at.claim() == []
            await operator.execute("SELECT pg_advisory_unlock(1)")
            await finishing
        await at.commit()
        assert ids(await at.claim()) == [jobs[1].id]
        await operator.close()


async def test_the_next_of_a_sequence_follows_one_that_ended_in_a_transaction(
    postgres_database: str, isolation: str
) -> None:
    async with flowing(postgres_database) as at:
        jobs = await at.add(in_turn(), in_turn())
        [first] = await at.claim()
        await at.begin(isolation)
        await at.finish_in(first)
        assert await at.claim() == []
        await at.commit()
        assert ids(await at.claim()) == [jobs[1].id]


async def test_who_ends_a_job_in_an_open_transaction_holds_nobody_up(postgres_database: str) -> None:
    async with flowing(postgres_database) as at:
        await at.flow.put([limit(3)])
        jobs = await at.add(*(new_job() for _ in range(8)))
        held = await at.claim()
        await at.begin()
        await at.finish_in(held[0])
        async with asyncio.timeout(5):
            again = await at.finish(held[1], held[2])
        assert ids(again) == ids(jobs[3:5])
        await at.commit()
        assert ids(await at.claim()) == [jobs[5].id]


async def test_a_job_that_is_added_in_a_transaction_finds_what_ended_meanwhile(
    postgres_database: str, isolation: str
) -> None:
    async with flowing(postgres_database) as at:
        await at.add()
        [job] = await at.claim()
        waiting = after(job)
        await at.begin(isolation)
        await at.add_in(waiting)
        assert await at.finish(job) == []
        await at.commit()
        assert ids(await at.claim()) == [waiting.id]


@pytest.mark.parametrize("way", ["limit", "sequence"])
async def test_one_that_somebody_has_when_room_is_made_is_freed_afterwards(
    postgres_database: str, way: str
) -> None:
    async with flowing(postgres_database) as at:
        if way == "limit":
            await at.flow.put([limit(1)])
        jobs = await at.add(*(in_turn() if way == "sequence" else new_job() for _ in range(2)))
        [first] = await at.claim()
        await at.begin()
        # As an edit does that comes too late, or waits for a key in vain.
        await at.connection.execute(f"SELECT FROM {SCHEMA}.job WHERE id = $1 FOR NO KEY UPDATE", jobs[1].id)
        assert await at.finish(first) == []
        assert await at.claim() == []
        await at.connection.execute("ROLLBACK")
        claimed: list[JobRecord] = []

        async def is_claimed() -> bool:
            claimed.extend(await at.claim())
            return bool(claimed)

        await until_async(is_claimed, "it is freed")
        assert ids(claimed) == [jobs[1].id]
        assert await at.finish(*claimed) == []
        assert await at.claim() == []
        assert await at.count("note") == 0


async def test_one_that_is_put_before_another_in_a_transaction_comes_too_late(postgres_database: str) -> None:
    async with flowing(postgres_database) as at:
        [closing] = await at.add(new_job(flow=NewFlow(held=True, after_any=True)))
        await at.begin()
        await at.add_in(new_job(flow=NewFlow(before=closing.id)))
        assert await at.flow.release(closing.id)
        await at.commit()
        assert len(await at.claim()) == 2
        awaited = await at.flow.awaited(closing.id)
        assert awaited is not None
        assert (awaited.total, awaited.pending) == (0, 0)


async def test_two_who_end_the_last_two_jobs_of_a_batch_free_the_last_one_once(
    postgres_database: str,
) -> None:
    async with flowing(postgres_database) as at:
        others = [await at.store.connect(NAMESPACE) for _ in range(2)]
        for _ in range(15):
            await at.add(new_job(), new_job())
            held = await at.claim()
            assert len(held) == 2
            [closing] = await at.add(after(*held))
            ticks = (
                at.tick([ended(job)], wanted(limit=5), session)
                for job, session in zip(held, others, strict=True)
            )
            ticked = await asyncio.gather(*ticks)
            claimed = [job for one in ticked for job in one.claimed]
            claimed += await at.claim()
            assert ids(claimed) == [closing.id]
            await at.finish(*claimed)
        for session in others:
            await session.close()


async def test_a_claim_that_is_under_way_is_counted_by_a_limit_that_is_put(postgres_database: str) -> None:
    async with flowing(postgres_database) as at:
        await at.add(*(new_job() for _ in range(6)))
        # A tick of somebody else, which has claimed and not committed.
        await at.begin()
        sql = f"""SELECT count(id) FROM {SCHEMA}.tick_v1(
            (SELECT id FROM {SCHEMA}.namespace), 'ann', 1000, NULL, NULL, NULL, NULL, NULL, $1, $2, 4,
            1000000000, false, NULL, NULL, NULL)"""
        assert await at.connection.fetchval(sql, [QUEUE], [TASK]) == 4
        putting = asyncio.ensure_future(at.flow.put([limit(2)]))
        await asyncio.sleep(0)
        async with asyncio.timeout(10):
            other = await at.store.connect(NAMESPACE)
            await until_async(lambda: _waits(at), "it waits")
            assert not putting.done()
            await at.commit()
            await putting
        assert (await at.tick(want=wanted(limit=10), session=other)).claimed == []
        assert (await at.flow.usage([gate(Scope.TASK, TASK)]))[0].running == 4
        await other.close()


async def _waits(at: Flows) -> bool:
    session = await at.store.connect(NAMESPACE)
    try:
        return bool(await session.jobs._database.value(WAITING))
    finally:
        await session.close()


async def test_many_workers_with_many_limits_neither_meet_in_deadlocks_nor_go_beyond_them(
    postgres_database: str,
) -> None:
    rest = 240
    async with flowing(postgres_database) as at:
        await at.flow.put(
            [
                limit(3, Scope.EACH_KEY),
                limit(7, Scope.QUEUE, QUEUE),
                limit(5, Scope.QUEUE, "other"),
                limit(1, Scope.KEY, "k1"),
            ]
        )
        draw = random.Random(6)
        jobs = [
            new_job(
                queue=draw.choice([QUEUE, "other"]),
                priority=draw.randrange(3),
                flow=NewFlow(
                    limit_key=f"k{draw.randrange(6)}",
                    sequence=f"s{draw.randrange(8)}" if draw.random() < 0.3 else None,
                ),
            )
            for _ in range(rest)
        ]
        for start in range(0, rest, 40):
            await at.add(*jobs[start : start + 40])
        sessions = [await at.store.connect(NAMESPACE) for _ in range(4)]
        done: list[str] = []
        over: list[str] = []

        async def work(place: int) -> None:
            name = f"worker-{place}"
            session = sessions[place]
            await session.fleet.register(worker_record(name), LONG)
            chance = random.Random(place)
            held: list[JobRecord] = []
            seq = 0
            while len(done) < rest:
                seq += 1
                ending = [job for job in held if chance.random() < 0.7]
                want = wanted(*chance.sample([QUEUE, "other"], 2), limit=chance.randrange(1, 6))
                ticked = await session.jobs.tick(
                    Tick(worker=name, seq=seq, moves=[ended(job) for job in ending], want=want)
                )
                assert set(ticked.verdicts) <= {Verdict.ACCEPTED}
                done.extend(job.id for job in ending)
                held = [job for job in held if job not in ending] + ticked.claimed

        async def watch() -> None:
            sql = f"""SELECT
                (SELECT count(*) FROM {SCHEMA}.job WHERE worker IS NOT NULL AND queue = '{QUEUE}') <= 7,
                (SELECT count(*) FROM {SCHEMA}.job WHERE worker IS NOT NULL AND queue = 'other') <= 5,
                (SELECT count(*) FROM {SCHEMA}.job WHERE worker IS NOT NULL AND limit_key = 'k1') <= 1,
                coalesce((SELECT max(n) FROM (SELECT count(*) AS n FROM {SCHEMA}.job
                    WHERE worker IS NOT NULL GROUP BY limit_key) AS k), 0) <= 3,
                coalesce((SELECT max(n) FROM (SELECT count(*) AS n FROM {SCHEMA}.job
                    WHERE worker IS NOT NULL AND sequence IS NOT NULL GROUP BY sequence) AS s), 0) <= 1"""
            while len(done) < rest:
                row = tuple(await at.connection.fetchrow(sql))
                if not all(row):
                    over.append(str(row))
                await asyncio.sleep(0)

        async with asyncio.timeout(60):
            await asyncio.gather(watch(), *(work(place) for place in range(4)))
        assert over == []
        assert sorted(done) == sorted(ids(jobs))
        assert (
            await at.connection.fetchval(
                "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
            )
            == 0
        )
        assert await at.count("note") == 0
        for session in sessions:
            await session.close()


async def test_who_edits_deletes_and_ends_at_once_forgets_no_room(postgres_database: str) -> None:
    async with flowing(postgres_database) as at:
        await at.flow.put([limit(1, Scope.EACH_KEY)])
        for turn in range(8):
            jobs = await at.add(*(keyed(f"k{turn}") for _ in range(4)))
            [held] = await at.claim()
            calls = [at.tick([ended(held)]), at.jobs.delete(jobs[1].id), at.jobs.delete(jobs[2].id)]
            await asyncio.gather(*calls)
            [last] = await at.claim()
            assert last.id == jobs[3].id
            assert await at.finish(last) == []
