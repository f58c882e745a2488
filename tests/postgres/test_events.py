"""Events on PostgreSQL: what is committed gets positions, whoever commits and reads at the same time."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import asyncpg
import pytest

from holdfast.model.events import EventRecord, NewEvent
from holdfast.stores.postgres import PostgresStore, events
from holdfast.stores.postgres.store import PostgresSession
from holdfast.testing.conformance.events import new_event
from tests.chaos.waiting import until_async
from tests.postgres.pooling import pooled
from tests.postgres.test_locks import connection
from tests.servers.run import Run

NAMESPACE = "default"
PLACE = "SELECT holdfast.sequence_v1(1, 1000)"
LEVELS = ["read_committed", "repeatable_read", "serializable"]
WRITERS = 8
READERS = 3
ROUNDS = 12
ALL = 100_000


class Log:
    """The events of a database, and connections of others beside it."""

    def __init__(self, url: str, store: PostgresStore, session: PostgresSession) -> None:
        self.url = url
        self.store = store
        self.session = session

    async def append_in(self, connection: Any, *told: NewEvent) -> None:
        await self.store.transactions.append_in(connection, NAMESPACE, told)

    async def append(self, *told: NewEvent) -> None:
        await self.session.events.append(told)

    async def records(self, after: int = 0) -> list[EventRecord]:
        return (await self.session.events.read(after, ALL)).records

    async def ids(self, after: int = 0) -> list[str]:
        return [event.id for event in await self.records(after)]


@asynccontextmanager
async def a_log(url: str, options: str = "") -> AsyncGenerator[Log]:
    store = PostgresStore.from_url(url + options, auto_migrate=not options)
    session = await store.connect(NAMESPACE)
    try:
        yield Log(url, store, session)
    finally:
        await session.close()
        await store.close()


async def test_what_began_first_and_commits_last_is_told_last_and_not_skipped(postgres_database: str) -> None:
    async with a_log(postgres_database) as log, connection(postgres_database) as slow:
        first, second, third = new_event(aggregate="a"), new_event(aggregate="a"), new_event(aggregate="a")
        async with slow.transaction():
            await log.append_in(slow, first)
            await log.append(second)
            page = await log.session.events.read(0, 10)
            assert ([event.id for event in page.records], page.upto) == ([second.id], 1)
            await log.append(third)
        assert await log.ids(page.upto) == [first.id, third.id], "both are new: in the order of their writes"
        told = await log.records()
        assert [(event.position, event.version) for event in told] == [(1, 1), (2, 2), (3, 3)]
        assert told[0].id == second.id


async def test_what_is_rolled_back_is_never_seen_and_leaves_no_gap(postgres_database: str) -> None:
    async with a_log(postgres_database) as log, connection(postgres_database) as slow:
        kept = [new_event(), new_event()]
        transaction = slow.transaction()
        await transaction.start()
        await log.append_in(slow, new_event())
        await log.append(kept[0])
        assert await log.ids() == [kept[0].id]
        await transaction.rollback()
        await log.append(kept[1])
        assert [(event.id, event.position) for event in await log.records()] == [
            (kept[0].id, 1),
            (kept[1].id, 2),
        ]


async def test_many_who_append_and_read_at_once_see_one_order_without_a_gap(postgres_database: str) -> None:
    kept: list[list[str]] = [[] for _ in range(WRITERS)]
    read: list[list[EventRecord]] = [[] for _ in range(READERS)]
    is_over = False

    async def write(log: Log, number: int) -> None:
        async with connection(postgres_database) as own:
            for turn in range(ROUNDS):
                told = [new_event(aggregate=str(number)) for _ in range(turn % 3 + 1)]
                transaction = own.transaction(isolation=LEVELS[turn % 3])
                await transaction.start()
                for event in told:
                    await log.append_in(own, event)
                if turn % 5 == number % 5:
                    await transaction.rollback()
                else:
                    await transaction.commit()
                    kept[number] += [event.id for event in told]

    async def follow(log: Log, number: int) -> None:
        after = 0
        is_last = False
        while not is_last:
            is_last = is_over
            page = await log.session.events.read(after, 5)
            read[number] += page.records
            is_last = is_last and not page.records
            after = page.upto

    async def write_all(log: Log) -> None:
        nonlocal is_over
        await asyncio.gather(*(write(log, number) for number in range(WRITERS)))
        is_over = True

    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(a_log(postgres_database))
        readers = [await stack.enter_async_context(a_log(postgres_database)) for _ in range(READERS)]
        await asyncio.gather(write_all(log), *(follow(each, number) for number, each in enumerate(readers)))
        assert read[0] == read[1] == read[2] == await log.records()
        assert await log.session.events.last() == sum(map(len, kept))
    assert [event.position for event in read[0]] == list(range(1, len(read[0]) + 1))
    for number, line in enumerate(kept):
        seen = [event for event in read[0] if event.aggregate == str(number)]
        assert [event.id for event in seen] == line
        assert [event.version for event in seen] == list(range(1, len(line) + 1))


@pytest.mark.parametrize("isolation", LEVELS)
async def test_one_id_from_two_transactions_is_one_event_and_nobody_waits(
    postgres_database: str, isolation: str
) -> None:
    async with (
        a_log(postgres_database) as log,
        connection(postgres_database) as slow,
        connection(postgres_database) as quick,
    ):
        twice, last = new_event(aggregate="a"), new_event(aggregate="a")
        async with slow.transaction(isolation=isolation):
            await log.append_in(slow, twice)
            async with quick.transaction(isolation=isolation):
                await log.append_in(quick, twice)
            assert await log.ids() == [twice.id]
            await log.append_in(slow, last)
        assert [(event.id, event.position, event.version) for event in await log.records()] == [
            (twice.id, 1, 1),
            (last.id, 2, 2),
        ]
        async with slow.transaction(isolation=isolation), quick.transaction(isolation=isolation):
            both = new_event()
            await log.append_in(slow, both)
            await log.append_in(quick, both)
        assert await log.ids(2) == [both.id]


@pytest.mark.parametrize("isolation", LEVELS)
async def test_a_snapshot_that_is_older_than_positions_does_no_harm_to_who_appends(
    postgres_database: str, isolation: str
) -> None:
    async with a_log(postgres_database) as log, connection(postgres_database) as slow:
        first, late = new_event(aggregate="a"), new_event(aggregate="a")
        async with slow.transaction(isolation=isolation):
            assert await slow.fetchval("SELECT count(*) FROM holdfast.event") == 0
            await log.append(first)
            assert await log.ids() == [first.id]
            await log.append_in(slow, late, first)
        assert await log.ids() == [first.id, late.id]


async def test_a_reader_behind_a_pooler_sees_what_others_commit(servers: Run, postgres_database: str) -> None:
    async with a_log(postgres_database) as log, connection(postgres_database) as slow:
        told = [new_event() for _ in range(4)]
        with pooled(servers, postgres_database, sessions=2) as pool:
            behind = pool.url("holdfast").removeprefix(pool.bouncer.url)
            async with a_log(pool.bouncer.url, behind) as other, slow.transaction():
                await log.append_in(slow, told[0])
                await other.append(told[1])
                assert await other.ids() == [told[1].id]
                await log.append(told[2])
                pages = await asyncio.gather(*(other.ids() for _ in range(6)), *(log.ids() for _ in range(4)))
                assert pages == [[told[1].id, told[2].id]] * 10
                async with other.store.transactions.begin() as own:
                    await other.append_in(own, told[3])
            assert await log.ids() == [told[place].id for place in (1, 2, 0, 3)]


async def test_who_is_killed_while_it_gives_positions_loses_nothing_and_lets_others_go_on(
    postgres_database: str,
) -> None:
    async with a_log(postgres_database) as log, connection(postgres_database) as watch:
        told = [new_event(aggregate="a") for _ in range(3)]
        await log.append(*told[:2])
        doomed = await asyncpg.connect(postgres_database)
        await doomed.execute("BEGIN")
        assert await doomed.fetchval(PLACE) is False
        await log.append(told[2])
        assert await log.ids() == [], "another is at it"
        await watch.execute("SELECT pg_terminate_backend($1)", doomed.get_server_pid())
        await until_async(log.ids, "its lock is gone")
        assert [(event.id, event.position, event.version) for event in await log.records()] == [
            (event.id, place, place) for place, event in enumerate(told, 1)
        ]
        doomed.terminate()


async def test_one_who_is_slow_to_give_positions_holds_nobody_up(postgres_database: str) -> None:
    async with a_log(postgres_database) as log, connection(postgres_database) as slow:
        await log.append(first := new_event())
        assert await log.ids() == [first.id]
        await log.append(second := new_event())
        async with slow.transaction():
            await slow.fetchval(PLACE)
            await log.append(third := new_event())
            page = await log.session.events.read(0, ALL)
            assert ([event.id for event in page.records], page.upto) == ([first.id], 1)
            assert await log.session.events.last() == 1
            assert await log.session.events.prune(0, {}, 9) == 0
        assert await log.ids() == [first.id, second.id, third.id]


async def test_many_that_wait_for_positions_get_them_in_parts(
    postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_log(postgres_database) as log:
        told = [new_event() for _ in range(2_500)]
        await log.append(*told)
        monkeypatch.setattr(events, "ROUNDS", 2)
        page = await log.session.events.read(0, ALL)
        assert (len(page.records), page.upto) == (1_000, 1_000)
        monkeypatch.undo()
        rest = await log.session.events.read(page.upto, ALL)
        assert rest.upto == 2_500
        assert [event.id for event in page.records + rest.records] == [event.id for event in told]


async def test_where_nobody_reads_whoever_prunes_gives_positions_to_all(postgres_database: str) -> None:
    async with a_log(postgres_database) as log, connection(postgres_database) as watch:
        for _ in range(3):
            await log.append(*(new_event(aggregate="a") for _ in range(900)))
        assert await log.session.events.prune(-1_000_000, {}, 5) == 5
        assert await log.session.events.last() == 2_700
        assert await watch.fetchval("SELECT count(*) FROM holdfast.outbox") == 0


async def test_large_events_get_their_positions_by_few_at_once(postgres_database: str) -> None:
    async with a_log(postgres_database) as log, connection(postgres_database) as own:
        await log.append(*(new_event(data=bytes(4_000_000)) for _ in range(6)))
        assert await own.fetchval(PLACE) is True
        assert await own.fetchval("SELECT last FROM holdfast.event_head") == 4
        assert (await log.session.events.read(0, 5, topic="other")).upto == 6
        page = await log.session.events.read(0, 6)
        assert (len(page.records), page.upto) == (1, 1), "a page has a limit too"


async def test_what_is_old_waits_for_what_stands_before_it_so_that_versions_go_on(
    postgres_database: str,
) -> None:
    """A transaction that was long under way has an older event behind younger ones."""
    age = "UPDATE holdfast.event SET at = 0 WHERE position = ANY ($1)"
    async with a_log(postgres_database) as log, connection(postgres_database) as watch:
        minute = 60_000_000
        await log.append(*(new_event(aggregate="a") for _ in range(3)), new_event("other"))
        assert len(await log.ids()) == 4
        await watch.execute(age, [1, 3, 4])
        assert await log.session.events.prune(minute, {}, 10) == 2
        assert [event.position for event in await log.records()] == [2, 3]
        await watch.execute(age, [2])
        assert await log.session.events.prune(minute, {"orders": 2}, 10) == 1
        await log.append(new_event(aggregate="a"))
        assert [event.version for event in await log.records()] == [3, 4]


async def test_an_aggregate_begins_above_the_highest_that_was_removed_whichever_was_last(
    postgres_database: str,
) -> None:
    async with a_log(postgres_database) as log:
        await log.append(*(new_event(aggregate=name) for name in "aaab"))
        assert [await log.session.events.prune(-1_000_000, {}, limit) for limit in (3, 1)] == [3, 1]
        await log.append(new_event(aggregate="c"), new_event(aggregate="c"))
        assert [event.version for event in await log.records()] == [4, 5]
