"""Events that come with something else on PostgreSQL: moves, schedules, transactions of every library."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from holdfast.model.errors import NotInTransaction, StoreUnavailable
from holdfast.model.records import LockHold, LockWish, Tick, Verdict
from holdfast.model.scheduling import ScheduleWrite, Term
from holdfast.model.timing import SECOND
from holdfast.stores.postgres import PostgresStore
from holdfast.testing.conformance.case import LONG, ended, new_job, wanted, worker_record
from holdfast.testing.conformance.events import new_event
from holdfast.testing.conformance.idle import Idle, standing
from holdfast.testing.conformance.schedules import write
from tests.chaos.waiting import until_async
from tests.postgres import ways
from tests.postgres.test_locks import WAITING, connection
from tests.postgres.ways import ASYNC_WAYS, WAYS, AsyncWay, Way, run, run_async

ACCEPTED, REFUSED = Verdict.ACCEPTED, Verdict.REFUSED
SCHEMA = "events"
LOCK = "consumer"


class Site:
    """A namespace that only one test has, in a schema that they share."""

    def __init__(self, url: str, store: PostgresStore, session: Any, namespace: str) -> None:
        self.url = url
        self.store = store
        self.session = session
        self.namespace = namespace
        self.transactions = store.transactions

    async def ids(self) -> list[str]:
        return [event.id for event in (await self.session.events.read(0, 100)).records]

    async def lock(self, owner: str = "ann", ttl: int = LONG) -> Term:
        token = (await self.session.locks.acquire(LockWish(name=LOCK, owner=owner, ttl=ttl))).token
        assert token is not None
        return Term(lock=LOCK, owner=owner, token=token)

    async def write_in(self, connection: Any, write: ScheduleWrite, term: Term) -> Verdict:
        return await self.transactions.write_in(connection, self.namespace, write, term)

    async def forget(self) -> None:
        """Removes all events."""
        while await self.session.events.prune(-SECOND, {}, 100):
            continue


@asynccontextmanager
async def a_site(url: str) -> AsyncGenerator[Site]:
    store = PostgresStore.from_url(f"{url}?schema={SCHEMA}", auto_migrate=True)
    namespace = f"n{secrets.token_hex(6)}"
    session = await store.connect(namespace)
    try:
        yield Site(url, store, session, namespace)
    finally:
        await session.close()
        await store.close()


def name(way: Callable[..., Any]) -> str:
    return way.__name__


@pytest.mark.parametrize("way", WAYS, ids=name)
async def test_a_blocking_transaction_takes_events_and_a_record_along(postgres_url: str, way: Way) -> None:
    async with a_site(postgres_url) as site:
        term = await site.lock()
        kept, undone, dropped, fired = (new_event(aggregate="Zoë's 100%") for _ in range(4))

        def work() -> None:
            append, write_in = site.transactions.append_in_sync, site.transactions.write_in_sync
            with way(site.url) as connection:
                run(connection, "SELECT 1")
                append(connection, site.namespace, [kept])
                run(connection, "SAVEPOINT here")
                append(connection, site.namespace, [undone])
                run(connection, "ROLLBACK TO SAVEPOINT here")
                first = write(events=(fired,))
                assert write_in(connection, site.namespace, first, term) is ACCEPTED
                assert write_in(connection, site.namespace, write(), term) is REFUSED
            with suppress(ZeroDivisionError), way(site.url) as connection:
                append(connection, site.namespace, [dropped])
                assert write_in(connection, site.namespace, write(version=1), term) is ACCEPTED
                raise ZeroDivisionError

        await asyncio.to_thread(work)
        assert await site.ids() == [kept.id, fired.id]
        [record] = (await site.session.schedules.get(["nightly"])).records
        assert record.version == 1


@pytest.mark.parametrize("way", ASYNC_WAYS, ids=name)
async def test_an_async_transaction_takes_events_and_a_record_along(postgres_url: str, way: AsyncWay) -> None:
    async with a_site(postgres_url) as site:
        term = await site.lock()
        kept, undone, dropped, fired = (new_event(aggregate="Zoë's 100%") for _ in range(4))
        append = site.transactions.append_in
        async with way(site.url) as connection:
            await run_async(connection, "SELECT 1")
            await append(connection, site.namespace, [kept])
            await run_async(connection, "SAVEPOINT here")
            await append(connection, site.namespace, [undone])
            await run_async(connection, "ROLLBACK TO SAVEPOINT here")
            assert await site.write_in(connection, write(events=(fired,)), term) is ACCEPTED
            assert await site.write_in(connection, write(), term) is REFUSED
            assert await site.ids() == []
        with suppress(ZeroDivisionError):
            async with way(site.url) as connection:
                await append(connection, site.namespace, [dropped])
                assert await site.write_in(connection, write(version=1), term) is ACCEPTED
                raise ZeroDivisionError
        assert await site.ids() == [kept.id, fired.id]
        [record] = (await site.session.schedules.get(["nightly"])).records
        assert record.version == 1


async def test_without_a_transaction_nothing_is_appended_or_written(postgres_url: str) -> None:
    async with a_site(postgres_url) as site:
        term = await site.lock()
        async with connection(site.url) as idle:
            with pytest.raises(NotInTransaction):
                await site.transactions.append_in(idle, site.namespace, [new_event()])
            with pytest.raises(NotInTransaction):
                await site.write_in(idle, write(), term)
        with ways.psycopg_connection(site.url, autocommit=True) as idle:
            with pytest.raises(NotInTransaction):
                site.transactions.append_in_sync(idle, site.namespace, [new_event()])
            with pytest.raises(NotInTransaction):
                site.transactions.write_in_sync(idle, site.namespace, write(), term)


async def test_a_lock_is_renewed_freed_and_taken_while_a_write_under_it_is_not_committed(
    postgres_url: str,
) -> None:
    async with a_site(postgres_url) as site:
        term = await site.lock()
        async with connection(site.url) as slow, connection(site.url) as other, connection(site.url) as watch:
            transaction = slow.transaction()
            await transaction.start()
            assert await site.write_in(slow, write(state=b"mine", events=(new_event(),)), term) is ACCEPTED
            hold = LockHold(name=LOCK, owner="ann", token=term.token, ttl=LONG)
            assert await site.session.locks.renew([hold]) == [True]
            await site.session.locks.release(LOCK, "ann", term.token)
            later = await site.lock("bob")
            assert await site.write_in(slow, write("other"), term) is REFUSED

            async def take_over() -> Verdict:
                async with other.transaction():
                    return await site.write_in(other, write(state=b"theirs", events=(new_event(),)), later)

            writing = asyncio.create_task(take_over())
            await until_async(
                lambda: watch.fetchval(WAITING), "the next holder waits for the first one's row"
            )
            await transaction.commit()
            assert await writing is REFUSED
        [record] = (await site.session.schedules.get(["nightly"])).records
        assert record.state == b"mine"
        assert len(await site.ids()) == 1


async def test_a_write_under_a_term_that_is_over_is_refused(postgres_url: str) -> None:
    async with a_site(postgres_url) as site:
        term = await site.lock(ttl=SECOND // 10)
        async with connection(site.url) as own, own.transaction():

            async def is_refused() -> bool:
                return await site.write_in(own, write(mark="m", events=(new_event(),)), term) is REFUSED

            await until_async(is_refused, "the term is over")
            assert await site.write_in(own, write("other", events=(new_event(),)), term) is REFUSED


@pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
async def test_a_snapshot_too_old_to_show_the_lock_is_told_apart_from_a_term_that_is_over(
    postgres_url: str, isolation: str
) -> None:
    async with a_site(postgres_url) as site:
        term = await site.lock(ttl=SECOND)
        ended = f"SELECT until <= {SCHEMA}.now_v1() FROM {SCHEMA}.lock WHERE token = $1"
        async with connection(site.url) as own:
            async with own.transaction(isolation=isolation):
                assert await site.write_in(own, write(), term) is ACCEPTED
            transaction = own.transaction(isolation=isolation)
            await transaction.start()
            await own.execute("SELECT 1")
            hold = LockHold(name=LOCK, owner="ann", token=term.token, ttl=LONG)
            assert await site.session.locks.renew([hold]) == [True]
            await until_async(lambda: own.fetchval(ended, term.token), "it has ended, by what is seen here")
            with pytest.raises(StoreUnavailable, match="again from its start"):
                await site.write_in(own, write(version=1), term)
            await transaction.rollback()
            async with own.transaction(isolation=isolation):
                assert await site.write_in(own, write(version=1), term) is ACCEPTED


async def test_a_repeat_brings_no_event_back_that_was_removed(postgres_url: str) -> None:
    async with a_site(postgres_url) as site:
        events = (new_event(),)
        await site.session.fleet.register(worker_record("ann"), LONG)
        await site.session.jobs.add([new_job(), new_job()])
        jobs = (
            await site.session.jobs.tick(Tick(worker="ann", seq=1, moves=[], want=wanted(limit=2)))
        ).claimed
        tick = Tick(worker="ann", seq=2, moves=[ended(jobs[0], events=events)], want=None)
        again = Tick(worker="ann", seq=2, moves=tick.moves, want=None, repeat=True)
        joined = ended(jobs[1], events=(new_event(),))
        plan, term = write(events=(new_event(),)), await site.lock()
        owned = write("owned", events=(new_event(),))

        async def in_transaction() -> list[Verdict]:
            async with site.transactions.begin() as own:
                return [
                    await site.transactions.move_in(own, site.namespace, "ann", joined),
                    await site.write_in(own, owned, term),
                ]

        for sent in (tick, again):
            assert (await site.session.jobs.tick(sent)).verdicts == [ACCEPTED]
            assert await in_transaction() == [ACCEPTED, ACCEPTED]
            assert await site.session.schedules.write([plan]) == [ACCEPTED]
            assert len(await site.ids()) == (4 if sent is tick else 0)
            await site.forget()
        assert await site.session.events.last() == 4


async def test_a_tick_whose_want_stands_takes_its_events_along(postgres_url: str) -> None:
    async with a_site(postgres_url) as site:
        await site.session.fleet.register(worker_record("ann"), LONG)
        worker = Idle(site.session, "ann")
        await worker.listens()
        try:
            await site.session.jobs.add([new_job()])
            [job] = (await worker.tick(wanted())).claimed
            told = new_event()
            move = ended(job, events=(told,), children=(new_job(delay=LONG),))
            seq = next(worker.seqs)
            ticked = await worker.tick(standing(), [move], seq=seq)
            assert (ticked.verdicts, ticked.stands, ticked.claimed) == ([ACCEPTED], True, [])
            assert await site.ids() == [told.id]
            second = new_job(fresh=True)
            await site.session.jobs.add([second])
            given = await worker.tick(wanted(), stood=seq)
            assert (given.handed, [job.id for job in given.claimed]) == (1, [second.id])
        finally:
            worker.stop()
