"""Events in a file: one order for all processes, by the write lock; found by their indexes, however many."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from typing import Any

import aiosqlite
import pytest
import sqlalchemy

from holdfast.model.errors import StoreUnavailable
from holdfast.model.events import EventRecord, NewEvent
from holdfast.model.records import Verdict
from holdfast.store import Session
from holdfast.stores.sqlite import events as module
from holdfast.stores.sqlite import schema
from holdfast.stores.sqlite.statements import PREFIX, statements
from holdfast.stores.sqlite.transaction import Transaction
from tests.sqlite.support import (
    Child,
    file_of,
    new_job,
    register,
    session_at,
    store_at,
    success,
    tick,
    url_of,
)

MANY = 100_000
RARE = 10
"""So many events, of which the last few alone are of the topic `rare`, half of the others of `stuck`."""

_numbers = count(1)


def event(topic: str = "orders", aggregate: str | None = None, **fields: Any) -> NewEvent:
    told: dict[str, Any] = {"id": f"e{next(_numbers)}", "type": "placed", "data": b"1"}
    return NewEvent(topic=topic, aggregate=aggregate, **{**told, **fields})


async def stored(session: Session) -> list[EventRecord]:
    return (await session.events.read(0, MANY)).records


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A connection as users make it."""
    asyncio.run(store_at(tmp_path).migrations.apply())
    with closing(sqlite3.connect(file_of(tmp_path), isolation_level=None)) as made:
        yield made


@pytest.mark.process
async def test_two_processes_append_and_a_third_reads_one_order_without_a_gap(tmp_path: Path) -> None:
    with ExitStack() as stack:
        writers = [stack.enter_context(Child("append", url_of(tmp_path), n, 100)) for n in range(2)]
        reader = stack.enter_context(Child("follow", url_of(tmp_path), 200))
        children = [*writers, reader]
        assert [child.line() for child in children] == ["ready"] * 3
        for child in children:
            child.say("go")
        told = [child.rest() for child in writers]
        seen = [line.split() for line in reader.rest()]
    assert [int(position) for position, _ in seen] == list(range(1, 201))
    for line in told:
        assert [event_id for _, event_id in seen if event_id in line] == line
    async with session_at(tmp_path) as session:
        kept = await stored(session)
    assert [event_id for _, event_id in seen] == [event.id for event in kept]
    assert [event.version for event in kept if event.aggregate == "all"] == list(range(1, 201))


async def test_an_event_that_was_rolled_back_is_never_seen_and_leaves_no_gap(
    tmp_path: Path, connection: sqlite3.Connection
) -> None:
    transactions = store_at(tmp_path).transactions
    dropped, kept, last = event(aggregate="a"), event(aggregate="a"), event(aggregate="a")
    async with session_at(tmp_path) as session:
        connection.execute("BEGIN")
        transactions.append_in_sync(connection, "default", [dropped])
        assert (await session.events.last(), await stored(session)) == (0, [])
        connection.execute("ROLLBACK")
        connection.execute("BEGIN")
        transactions.append_in_sync(connection, "default", [kept])
        assert await stored(session) == []
        connection.execute("COMMIT")
        await session.events.append([last])
        assert [(told.id, told.position, told.version) for told in await stored(session)] == [
            (kept.id, 1, 1),
            (last.id, 2, 2),
        ]


def test_what_a_joined_transaction_reads_before_it_writes_is_not_out_of_date(
    tmp_path: Path, connection: sqlite3.Connection
) -> None:
    transactions = store_at(tmp_path).transactions
    with closing(sqlite3.connect(file_of(tmp_path), isolation_level=None)) as late:
        connection.execute("BEGIN")
        transactions.append_in_sync(connection, "default", [event(aggregate="a")])

        def commit_the_other(statement: str) -> None:
            if connection.in_transaction and statement.startswith(("INSERT", "UPDATE", "DELETE")):
                connection.execute("COMMIT")

        late.execute("BEGIN")
        late.set_trace_callback(commit_the_other)
        transactions.append_in_sync(late, "default", [event(aggregate="a")])
        late.execute("COMMIT")
        told = late.execute("SELECT position, version FROM holdfast_event ORDER BY position").fetchall()
    assert told == [(1, 1), (2, 2)]


async def test_a_transaction_that_read_before_another_wrote_appends_nothing(
    tmp_path: Path, connection: sqlite3.Connection
) -> None:
    connection.execute("BEGIN")
    assert connection.execute("SELECT count(*) FROM holdfast_event").fetchone() == (0,)
    async with session_at(tmp_path) as session:
        await session.events.append([event()])
        with pytest.raises(StoreUnavailable, match="BEGIN IMMEDIATE"):
            store_at(tmp_path).transactions.append_in_sync(connection, "default", [event()])
        assert await session.events.last() == 1


async def test_events_join_transactions_of_other_libraries(tmp_path: Path) -> None:
    transactions = store_at(tmp_path).transactions
    async with session_at(tmp_path) as session:
        async with aiosqlite.connect(file_of(tmp_path)) as aio:
            await aio.execute("BEGIN")
            await transactions.append_in(aio, "default", [event()])
            await aio.commit()
        engine = sqlalchemy.create_engine(f"sqlite:///{file_of(tmp_path)}")
        with engine.begin() as joined:
            transactions.append_in_sync(joined, "default", [event(), event()])
        engine.dispose()
        assert [told.position for told in await stored(session)] == [1, 2, 3]


async def test_an_instant_is_never_before_that_of_the_event_before(tmp_path: Path) -> None:
    for now in (500, 300, 700):
        async with session_at(tmp_path, clock=lambda now=now: now) as session:  # type: ignore[misc]
            await session.events.append([event()])
            instants = [told.at for told in await stored(session)]
    assert instants == [500, 500, 700]


async def test_a_page_ends_before_it_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE_BYTES", 1_000)
    sizes = [400, 400, 400, 5_000, 0, 10]
    async with session_at(tmp_path) as session:
        await session.events.append([event(data=bytes(size)) for size in sizes])
        pages: list[list[int]] = []
        after = 0
        while after < len(sizes):
            page = await session.events.read(after, 3)
            pages.append([len(told.data) for told in page.records])
            assert page.upto == page.records[-1].position
            after = page.upto
    assert pages == [[400, 400], [400], [5_000], [0, 10]]


async def test_a_file_of_the_schema_before_is_migrated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = schema.steps()
    job = new_job()
    with monkeypatch.context() as patched:
        patched.setattr(schema, "steps", lambda: known[:3])
        async with session_at(tmp_path) as session:
            await session.jobs.add([job])
    assert "0004_events" in await store_at(tmp_path).migrations.pending()
    async with session_at(tmp_path) as session:
        assert await session.jobs.get(job.id) is not None
        await session.events.append([event()])
        assert await session.events.last() == 1
    assert await store_at(tmp_path).migrations.pending() == []


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of many events, of which SQLite knows how many there are of each kind."""
    folder = tmp_path_factory.mktemp("crowded")

    async def fill() -> None:
        async with session_at(folder) as session:
            for start in range(0, MANY - RARE, 5_000):
                places = range(start, min(start + 5_000, MANY - RARE))
                await session.events.append(
                    [event(("stuck", "orders")[n // 50_000], f"a{n % 1_000}") for n in places]
                )
            await session.events.append([event("rare", "a1") for _ in range(RARE)])

    asyncio.run(fill())
    with closing(sqlite3.connect(file_of(folder))) as connection:
        connection.execute("ANALYZE")
    return folder


def effort(folder: Path, work: Callable[[Transaction], object]) -> int:
    """How many hundreds of steps SQLite makes; whatever is written is rolled back."""
    steps = 0

    def note() -> int:
        nonlocal steps
        steps += 1
        return 0

    with closing(sqlite3.connect(file_of(folder), isolation_level=None)) as connection:
        connection.text_factory = bytes
        connection.execute("BEGIN IMMEDIATE")
        [[ns]] = connection.execute("SELECT id FROM holdfast_namespace WHERE name = 'default'").fetchall()
        connection.set_progress_handler(note, 100)
        work(Transaction(connection, statements(PREFIX), ns, 2**60))
        connection.set_progress_handler(None, 0)
        connection.execute("ROLLBACK")
    return steps


@pytest.mark.parametrize(
    ("after", "topic", "aggregate", "places"),
    [
        (50_000, None, None, range(50_001, 50_006)),
        (0, "orders", None, range(50_001, 50_006)),
        (0, "rare", None, range(MANY - RARE + 1, MANY - RARE + 6)),
        (50_000, "stuck", None, ()),
        (0, "orders", "a7", range(50_008, 55_008, 1_000)),
        (0, "rare", "a1", range(MANY - RARE + 1, MANY - RARE + 6)),
        (0, "rare", "a2", ()),
        (99_000, "stuck", "a7", ()),
    ],
)
def test_of_many_events_only_those_that_are_asked_for_are_read(
    crowded: Path, after: int, topic: str | None, aggregate: str | None, places: range
) -> None:
    def work(tx: Transaction) -> None:
        page = module._read(tx, after, 5, topic, aggregate)
        assert [told.position for told in page.records] == list(places)

    assert effort(crowded, work) < 10


def test_what_must_stay_is_not_looked_through_to_prune_the_rest_and_a_step_is_small(crowded: Path) -> None:
    def work(tx: Transaction) -> None:
        assert module._prune(tx, 0, {"stuck": 0}, 100) == 100
        assert module._read(tx, 0, 1, "orders", None).records[0].position == 50_101

    def nothing_old(tx: Transaction) -> None:
        assert module._prune(tx, 2**60, {}, 100) == 0

    assert effort(crowded, work) < 300
    assert effort(crowded, nothing_old) < 10


async def test_others_write_between_the_steps_of_a_prune(tmp_path: Path) -> None:
    async with session_at(tmp_path) as session:
        await session.events.append([event() for _ in range(1_000)])
        pruned = appended = 0
        while removed := await session.events.prune(0, {"later": 0}, 100):
            pruned += removed
            appended += 1
            await session.events.append([event("later")])
        assert (pruned, appended) == (1_000, 10)
        assert [told.position for told in await stored(session)] == list(range(1_001, 1_011))


async def test_events_of_plain_and_other_moves_stand_in_the_order_of_the_moves(tmp_path: Path) -> None:
    async with session_at(tmp_path) as session:
        await register(session)
        await session.jobs.add([new_job() for _ in range(6)])
        jobs = (await tick(session, 1)).claimed
        told = [event(aggregate="a") for _ in jobs]
        more: list[dict[str, Any]] = [{}, {"reason": "slow"}, {}, {"children": (new_job(),)}, {}, {}]
        moves = [
            success(job, events=(each,), **fields) for job, each, fields in zip(jobs, told, more, strict=True)
        ]
        stranger = success(jobs[0], events=(event(),))
        assert (await tick(session, 1, stranger, worker="bob")).verdicts == [Verdict.REFUSED]
        assert (await tick(session, 2, *moves)).verdicts == [Verdict.ACCEPTED] * 6
        kept = await stored(session)
        assert [(each.id, each.position, each.version) for each in kept] == [
            (each.id, place, place) for place, each in enumerate(told, 1)
        ]


@pytest.mark.parametrize("reason", [None, "slow"])
async def test_a_repeated_move_does_not_bring_back_events_that_were_pruned(
    tmp_path: Path, reason: str | None
) -> None:
    now = 1_000
    async with session_at(tmp_path, clock=lambda: now) as session:
        await register(session)
        await session.jobs.add([new_job()])
        [job] = (await tick(session, 1)).claimed
        move = success(job, events=(event(),), reason=reason)
        for _ in range(2):
            assert (await tick(session, 2, move)).verdicts == [Verdict.ACCEPTED]
            now += 1
            await session.events.prune(0, {}, 10)
        assert (await session.events.last(), await stored(session)) == (1, [])
