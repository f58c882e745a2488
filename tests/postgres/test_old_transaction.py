"""A transaction that somebody holds open keeps dead rows; claims must not pass them again and again."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from holdfast.model.lifecycle import State
from holdfast.model.records import JobRecord, Tick
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres.floors import LONG_SECONDS, MANY, SHORT_SECONDS, TURNS, Floors
from holdfast.stores.postgres.store import PostgresSession
from holdfast.testing.conformance.case import LONG, ended, new_job, wanted, worker_record

SCHEMA = "old"
BATCH = 500


class Time:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Watched(Floors):
    """Remembers how many entries each claim read."""

    def __init__(self, clock: Time) -> None:
        super().__init__(clock)
        self.reads: list[int] = []

    def learn(self, read: int, claimed: Sequence[JobRecord], ready_until: int | None) -> None:
        self.reads.append(read)
        super().learn(read, claimed, ready_until)


class Flow:
    """Jobs that come and are done, batch by batch."""

    def __init__(self, session: PostgresSession, clock: Time) -> None:
        self.jobs = session.jobs
        self.floors = self.jobs._floors = Watched(clock)
        self._seq = 0
        self._held: list[JobRecord] = []

    async def add(self, count: int, **fields: Any) -> None:
        await self.jobs.add([new_job(**fields) for _ in range(count)])

    async def tick(self, limit: int = BATCH) -> list[JobRecord]:
        self._seq += 1
        moves = [ended(job) for job in self._held]
        tick = Tick(worker="ann", seq=self._seq, moves=moves, want=wanted(limit=limit))
        self._held = (await self.jobs.tick(tick)).claimed
        return self._held

    async def work(self, count: int) -> None:
        for _ in range(0, count, BATCH):
            await self.add(BATCH)
            assert len(await self.tick()) == BATCH


@asynccontextmanager
async def flowing(url: str, clock: Time) -> AsyncIterator[tuple[Flow, Any]]:
    store = PostgresStore.from_url(f"{url}?schema={SCHEMA}", auto_migrate=True)
    session = await store.connect("n")
    other = await asyncpg.connect(url)
    try:
        await session.fleet.register(worker_record("ann"), LONG)
        yield Flow(session, clock), other
    finally:
        await other.close()
        await session.close()
        await store.close()


async def test_claims_do_not_pass_what_was_claimed_before_again_and_again(postgres_database: str) -> None:
    async with flowing(postgres_database, Time()) as (flow, other):
        holding = other.transaction(isolation="repeatable_read")
        await holding.start()
        await other.fetch(f"SELECT count(*) FROM {SCHEMA}.job")
        await flow.work(4 * MANY)
        reads = flow.floors.reads
        assert max(reads) > MANY
        reads.clear()
        await flow.work(20 * BATCH)
        assert max(reads) < BATCH + MANY / 10
        await holding.rollback()


async def test_jobs_that_stand_before_the_floor_are_claimed_from_the_front_soon(
    postgres_database: str,
) -> None:
    clock = Time()
    async with flowing(postgres_database, clock) as (flow, other):
        holding = other.transaction(isolation="repeatable_read")
        await holding.start()
        await other.fetch(f"SELECT count(*) FROM {SCHEMA}.job")
        await flow.work(4 * MANY)
        assert flow.floors.begin()[0] is not None
        await flow.tick()
        await flow.add(1, priority=-5)
        assert await flow.tick() == []
        clock.now += LONG_SECONDS + 1
        assert [job.priority for job in await flow.tick()] == [-5]
        await holding.rollback()


async def test_more_jobs_than_become_ready_at_once_are_not_kept_behind_the_floor(
    postgres_database: str,
) -> None:
    clock = Time()
    async with flowing(postgres_database, clock) as (flow, other):
        holding = other.transaction(isolation="repeatable_read")
        await holding.start()
        await other.fetch(f"SELECT count(*) FROM {SCHEMA}.job")
        await flow.work(4 * MANY)
        await flow.tick()
        many = 3_000
        await flow.add(many)
        # As if they had been waiting for the instant that has just come.
        await flow.jobs._database.value(f"UPDATE {SCHEMA}.job SET ready = false WHERE ready")
        clock.now += LONG_SECONDS + 1
        claimed = 0
        while jobs := await flow.tick():
            claimed += len(jobs)
        assert claimed == many
        assert flow.floors.begin()[0] is not None
        await holding.rollback()


async def test_without_an_old_transaction_every_claim_begins_at_the_front(postgres_database: str) -> None:
    async with flowing(postgres_database, Time()) as (flow, _):
        await flow.add(BATCH)
        await flow.tick()
        assert flow.floors.begin() == (None, None)


def test_a_busy_session_looks_at_the_front_after_a_second_and_many_turns() -> None:
    clock = Time()
    floors = Floors(clock)
    job = JobRecord(
        id="i", task="t", queue="q", payload=b"", state=State.CLAIMED, priority=2, due=7, created=0
    )
    floors.learn(MANY + 1, [job], 99)
    assert floors.begin() == ('{"q":[[2,7,"i"]]}', 99)
    for _ in range(TURNS + 1):
        assert floors.begin()[0] is not None
    clock.now += SHORT_SECONDS + 0.1
    assert floors.begin() == (None, None)


def test_a_claim_of_nothing_among_many_dead_entries_sets_the_floor_at_the_last_job() -> None:
    floors = Floors(Time())
    job = JobRecord(
        id="i", task="t", queue="q", payload=b"", state=State.CLAIMED, priority=2, due=7, created=0
    )
    floors.learn(1, [job], 1)
    assert floors.begin() == (None, None)
    floors.learn(MANY, [], 2)
    assert floors.begin() == ('{"q":[[2,7,"i"]]}', 2)
