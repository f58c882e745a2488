"""Wants that stand in PostgreSQL: what races, lost rows and lost connections do to them."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from holdfast.model.lifecycle import State
from holdfast.model.records import Ticked
from holdfast.model.timing import SECOND
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres.floors import MANY
from holdfast.stores.postgres.store import PostgresSession
from holdfast.testing.conformance.case import LONG, new_job, wanted, worker_record
from holdfast.testing.conformance.idle import Idle, standing
from tests.chaos.waiting import until_async

SCHEMA = "standing"
ADD = f"""SELECT {SCHEMA}.add_lone_v1(
    (SELECT id FROM {SCHEMA}.namespace), $1, $2, $3, $4, 0, NULL, NULL, NULL, NULL, NULL, NULL)"""


class Site:
    """Workers of one database, and a connection that looks on."""

    def __init__(self, store: PostgresStore, connection: Any, schema: str) -> None:
        self.store = store
        self.connection = connection
        self.schema = schema
        self.sessions: list[PostgresSession] = []
        self.workers: list[Idle] = []

    async def open(self) -> PostgresSession:
        self.sessions.append(await self.store.connect("n"))
        return self.sessions[-1]

    async def idle(self, name: str) -> Idle:
        session = await self.open()
        await session.fleet.register(worker_record(name), LONG)
        worker = Idle(session, name)
        self.workers.append(worker)
        await worker.listens()
        return worker

    async def add(self, **fields: Any) -> str:
        """Adds a job that may be handed over; its id."""
        job = new_job(fresh=True, **fields)
        await self.sessions[0].jobs.add([job])
        return job.id

    async def state(self, job: str) -> State:
        [record] = await self.sessions[0].jobs.states([job])
        assert record is not None
        return record.state

    async def execute(self, statement: str) -> None:
        await self.connection.execute(statement.replace("holdfast.", f"{self.schema}."))

    async def value(self, statement: str) -> Any:
        return await self.connection.fetchval(statement.replace("holdfast.", f"{self.schema}."))


@asynccontextmanager
async def a_site(url: str, schema: str = SCHEMA, options: str = "") -> AsyncGenerator[Site]:
    store = PostgresStore.from_url(f"{url}?schema={schema}{options}", auto_migrate=True)
    connection = await asyncpg.connect(url)
    site = Site(store, connection, schema)
    try:
        yield site
    finally:
        for worker in site.workers:
            worker.stop()
        for session in site.sessions:
            await session.close()
        await store.close()
        await connection.close()


async def test_a_repeat_that_says_nothing_stands_leaves_nothing_standing(postgres_database: str) -> None:
    async with a_site(postgres_database) as site:
        ann = await site.idle("ann")
        first = await site.add()
        want = standing(limit=2)
        seq = next(ann.seqs)
        assert (await ann.tick(want, seq=seq)).stands
        again = await ann.tick(want, seq=seq, repeat=True)
        assert [job.id for job in again.claimed] == [first]
        later = await site.add()
        assert (again.stands, await site.state(later)) in ((False, State.SCHEDULED), (True, State.CLAIMED))


async def test_a_tick_that_comes_after_its_want_was_ended_does_not_stand(postgres_database: str) -> None:
    async with a_site(postgres_database) as site:
        ann = await site.idle("ann")
        seq = await ann.stand()
        await ann.tick(stood=seq)
        assert not (await ann.tick(standing(), seq=seq)).stands
        assert await site.state(await site.add()) is State.SCHEDULED


async def test_a_repeat_that_comes_before_the_tick_itself_is_the_one_that_stands(
    postgres_database: str,
) -> None:
    async with a_site(postgres_database) as site:
        ann = await site.idle("ann")
        seq = next(ann.seqs)
        assert (await ann.tick(standing(), seq=seq, repeat=True)).stands
        job = await site.add()
        assert [got.id for got in (await ann.handed()).claimed] == [job]
        assert not (await ann.tick(standing(), seq=seq)).stands
        assert await site.state(await site.add()) is State.SCHEDULED


async def test_a_job_is_given_though_the_server_lost_what_stood(postgres_database: str) -> None:
    """As after a crash, or on a standby: the table is not logged."""
    async with a_site(postgres_database) as site:
        ann = await site.idle("ann")
        seq = await ann.stand()
        job = await site.add()
        await site.execute("TRUNCATE holdfast.standing")
        ticked = await ann.tick(standing(), stood=seq)
        assert ([got.id for got in ticked.claimed], ticked.handed, ticked.stands) == ([job], 1, False)
        seq = await ann.stand()
        await site.execute("TRUNCATE holdfast.standing")
        waiting = await site.add()
        assert await site.state(waiting) is State.SCHEDULED
        assert [got.id for got in (await ann.tick(standing(), stood=seq)).claimed] == [waiting]


async def test_it_is_told_how_long_ago_a_job_was_claimed(postgres_database: str) -> None:
    async with a_site(postgres_database) as site:
        ann = await site.idle("ann")
        seq = await ann.stand()
        await site.execute("UPDATE holdfast.standing SET since = since - 3600000000")
        await site.add()
        assert (await ann.handed()).after >= 3600 * SECOND
        ticked = await ann.tick(stood=seq)
        assert ticked.handed_ago is not None
        assert 0 <= ticked.handed_ago < 60 * SECOND


async def test_a_tick_waits_for_what_is_being_handed_over(postgres_database: str) -> None:
    async with a_site(postgres_database) as site:
        ann = await site.idle("ann")
        for is_kept in (True, False):
            seq = await ann.stand()
            job = new_job()
            handing = site.connection.transaction()
            await handing.start()
            now = await site.connection.fetchval(ADD, job.id, job.task, job.queue, b"x")
            assert now < 0
            tick = asyncio.create_task(ann.tick(standing(), stood=seq))
            await until_async(lambda: _waits(site), "the tick waits", bool)
            await (handing.commit() if is_kept else handing.rollback())
            ticked: Ticked = await tick
            assert [got.id for got in ticked.claimed] == [job.id][: int(is_kept)]
            assert (ticked.handed, ticked.stands) == (int(is_kept), not is_kept)


async def _waits(site: Site) -> bool:
    return bool(await site.value("SELECT count(*) FROM pg_locks WHERE NOT granted"))


async def test_a_job_goes_past_a_worker_whose_row_somebody_has(postgres_database: str) -> None:
    async with a_site(postgres_database) as site:
        ann = await site.idle("ann")
        bob = await site.idle("bob")
        await ann.stand()
        await bob.stand()
        async with site.connection.transaction():
            await site.execute("UPDATE holdfast.standing SET since = 0 WHERE worker = 'ann'")
            job = await site.add()
            assert [got.id for got in (await bob.handed()).claimed] == [job]
            assert await site.state(await site.add()) is State.SCHEDULED


async def test_one_transaction_keeps_no_more_than_one_worker_waiting(postgres_database: str) -> None:
    async with a_site(postgres_database) as site:
        for name in ("ann", "bob"):
            await (await site.idle(name)).stand()
        handed = 0
        async with site.connection.transaction():
            for _ in range(3):
                job = new_job()
                handed += await site.connection.fetchval(ADD, job.id, job.task, job.queue, b"x") < 0
        assert handed == 1


async def test_a_worker_whose_listening_connection_was_killed_stands_again(postgres_database: str) -> None:
    async with a_site(postgres_database) as site:
        ann = await site.idle("ann")
        bob = await site.idle("bob")
        await ann.stand()
        await bob.stand()
        pid = await site.value("SELECT pid FROM holdfast.standing WHERE worker = 'ann'")
        assert await site.value(f"SELECT pg_terminate_backend({pid}, 5000)")
        job = await site.add()
        assert [got.id for got in (await bob.handed()).claimed] == [job]
        assert await site.value("SELECT seq FROM holdfast.standing WHERE worker = 'ann'") < 0
        await ann.listens()
        assert await site.value("SELECT pid FROM holdfast.standing WHERE worker = 'ann'") != pid


@pytest.mark.parametrize("size", [0, 2_999, 3_000, 100_000])
async def test_a_job_comes_as_it_is_stored_or_with_the_tick(size: int, postgres_database: str) -> None:
    text = '\u20ac\x01"\\' * 20
    async with a_site(postgres_database) as site:
        ann = await site.idle("ann")
        several: tuple[dict[str, Any], ...] = (
            {},
            {"tags": (text, "b"), "lease": 7 * SECOND, "timeout": 5, "retry": b"{\0}", "headers": b"\0\xff"},
            {"headers": b"h" * 2_000, "tags": (text * 20,)},
        )
        for fields in several:
            seq = await ann.stand()
            job = await site.add(payload=b"\0" * size, **fields)
            handed = await ann.handed()
            [stored] = await site.sessions[0].jobs.states([job])
            assert handed.claimed in ([], [stored])
            assert bool(handed.claimed) or size >= 3_000 or len(fields.get("headers", b"")) > 1_000
            assert (await ann.tick(stood=seq)).claimed == [stored]


async def test_the_longest_names_and_numbers_fit(postgres_database: str) -> None:
    schema, prefix = "s" * 24, "p" * 24
    async with a_site(postgres_database, schema, f"&prefix={prefix}") as site:
        await site.store.migrations.apply()
        await site.execute(f"ALTER TABLE {schema}.{prefix}namespace ALTER id RESTART 123456")
        ann = await site.idle("ann")
        await ann.stand()
        job = await site.add()
        assert [got.id for got in (await ann.handed()).claimed] == [job]


async def test_nothing_stands_while_claims_pass_many_entries_in_vain(postgres_database: str) -> None:
    async with a_site(postgres_database) as site:
        ann = await site.idle("ann")
        assert (await ann.tick(standing())).stands
        others = [new_job(task="another") for _ in range(MANY)]
        await site.sessions[0].jobs.add(others)
        await ann.tick(wanted())
        assert not (await ann.tick(standing())).stands
        await site.execute("DELETE FROM holdfast.job")
        await site.execute("VACUUM holdfast.job")
        session = site.sessions[0]
        session.jobs._floors._floors.clear()  # as after LONG_SECONDS
        await ann.tick(wanted())
        assert (await ann.tick(standing())).stands


async def test_the_dead_are_asked_once(postgres_database: str) -> None:
    async with a_site(postgres_database) as site:
        ann = await site.idle("ann")
        await ann.stand()
        await site.execute("UPDATE holdfast.standing SET pid = 2147483647")
        assert await site.state(await site.add()) is State.SCHEDULED
        assert await site.value("SELECT count(*) FROM holdfast.standing WHERE seq > 0") == 0
