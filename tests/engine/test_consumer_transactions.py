"""Effects that commit with a group's progress: once for each event, whatever fails or is lost meanwhile."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, Event, Never
from tests.chaos.waiting import until_async
from tests.engine.ledgers import GROUP, QUICK, TOPIC, Books, PostgresBooks, SqliteBooks
from tests.engine.rig import PATIENCE
from tests.postgres.test_lost_commits import DEADLY, DIE, answer_lost

WAYS = ("transaction", "sync_transaction", "own")
every_way = pytest.mark.parametrize("way", WAYS)
Make = Callable[..., Books]


@pytest.fixture(params=["sqlite", "postgres"])
def make_books(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    def make(**settings: Any) -> Books:
        if request.param == "postgres":
            return PostgresBooks(request.getfixturevalue("postgres_url"), **settings)
        return SqliteBooks(tmp_path, **settings)

    return make


class Once:
    """Does something when it is called for this event for the first time."""

    def __init__(self, name: str, do: Callable[[], object]) -> None:
        self._name = name
        self._do = do
        self.calls: Counter[str] = Counter()

    def __call__(self, ctx: Context, name: str) -> object:
        self.calls[name] += 1
        return self._do() if name == self._name and self.calls[name] == 1 else None


def boom() -> None:
    raise ValueError("as asked")


@every_way
async def test_each_event_has_its_effect_once(make_books: Make, way: str) -> None:
    books = make_books()
    calls = Once("", boom)
    books.on(way, inside=calls)
    async with books.app as app:
        await books.emit("a1", "b1", "a2", "a3", "b2")
        async with app.worker():
            await books.settled(5)
        assert await books.ledger() == ["a1", "a2", "a3", "b1", "b2"]
    assert calls.calls == Counter(["a1", "a2", "a3", "b1", "b2"])


@every_way
@pytest.mark.parametrize("where", ["before", "inside"])
async def test_an_effect_that_failed_before_its_commit_is_made_when_it_is_tried_again(
    make_books: Make, way: str, where: str
) -> None:
    books = make_books()
    fails = Once("a1", boom)
    books.on(way, **{where: fails})
    async with books.app as app:
        await books.emit("a1", "a2", "b1")
        async with app.worker():
            await books.settled(3)
        assert await books.ledger() == ["a1", "a2", "b1"]
    assert fails.calls == {"a1": 2, "a2": 1, "b1": 1}


@every_way
async def test_what_a_handler_raises_behind_its_commit_changes_nothing(make_books: Make, way: str) -> None:
    books = make_books()
    fails = Once("a1", boom)
    books.on(way, behind=fails)
    async with books.app as app:
        await books.emit("a1", "a2")
        async with app.worker():
            await books.settled(2)
        assert await books.ledger() == ["a1", "a2"]
    assert fails.calls == {"a1": 1, "a2": 1}


async def test_an_event_whose_handler_rolled_back_what_it_had_completed_in_is_tried_again(
    make_books: Make,
) -> None:
    books = make_books()
    runs: list[int] = []

    @books.app.on(TOPIC, group=GROUP, retry=QUICK)
    def handle(ctx: Context, event: Event[str]) -> None:
        runs.append(ctx.run)
        with closing(books.own()) as connection:
            books.pay_sync(connection, event.data)
            ctx.complete_in_sync(connection)
            if ctx.run == 1:
                connection.rollback()
            connection.commit()

    async with books.app as app:
        await books.emit("a1")
        async with app.worker():
            await books.settled(1)
        assert await books.ledger() == ["a1"]
    assert runs == [1, 2]
    [failed] = books.seen.of("event_failed")
    assert "its transaction was not committed" in failed.facts["reason"]


@every_way
async def test_what_is_emitted_and_enqueued_commits_with_the_effect_or_not_at_all(
    make_books: Make, way: str
) -> None:
    books = make_books()
    done: list[str] = []

    @books.app.task
    async def note(name: str) -> None:
        done.append(name)

    def leave(ctx: Context, name: str) -> None:
        ctx.emit(Event(topic="paid", type="t", data=name))
        ctx.enqueue(note.call(name))

    books.on(way, before=leave, inside=Once("a1", boom))
    async with books.app as app:
        await books.emit("a1", "a2")
        async with app.worker():
            await books.settled(2)
            await books.seen.wait("settled", 2)
        assert [event.data for event in await app.events.list("paid")] == ["a1", "a2"]
    assert sorted(done) == ["a1", "a2"]


@every_way
async def test_an_operator_who_writes_while_an_event_is_handled_has_it_done_once(
    make_books: Make, way: str
) -> None:
    books = make_books()
    asked, answered = threading.Event(), threading.Event()

    def ask() -> object:
        asked.set()
        return (asyncio.to_thread if way == "transaction" else _call)(answered.wait, PATIENCE)

    asks = Once("b1", ask)

    def before(ctx: Context, name: str) -> object:
        if name == "a1":
            boom()
        return asks(ctx, name)

    books.on(way, before=before, retry=Never())
    async with books.app as app:
        await books.emit("a1", "b1", "b2", "a2")
        async with app.worker():
            assert await asyncio.to_thread(asked.wait, PATIENCE)
            assert await app.events.skip(GROUP, aggregate="a") == 1
            answered.set()
            await books.settled(4)
        assert await books.ledger() == ["a2", "b1", "b2"]
    assert asks.calls["b1"] == 2, "its first commit was refused"


def _call(function: Callable[[float], object], argument: float) -> object:
    return function(argument)


@pytest.mark.parametrize("way", WAYS[1:])
async def test_a_consumer_that_was_superseded_before_it_completes_leaves_no_effect(
    make_books: Make, way: str
) -> None:
    books = make_books()
    first, go_on = threading.Event(), threading.Event()

    def stop() -> None:
        first.set()
        assert go_on.wait(PATIENCE)

    stops = Once("a1", stop)
    books.on(way, before=stops)
    async with books.app as app:
        await books.emit("a1", "a2")
        async with app.worker():
            assert await asyncio.to_thread(first.wait, PATIENCE)
            async with app.worker():
                await books.depose()
                await books.settled(2)
                go_on.set()
        assert await books.ledger() == ["a1", "a2"]
    assert stops.calls == {"a1": 2, "a2": 1}


async def test_one_that_lost_its_lock_behind_its_completion_and_then_commits_has_the_only_effect(
    postgres_url: str,
) -> None:
    # On SQLite nobody can take a lock from one who has the write lock of the file.
    books = PostgresBooks(postgres_url)
    calls: list[str] = []
    first, second, go_on = threading.Event(), threading.Event(), threading.Event()

    def before(ctx: Context, name: str) -> None:
        calls.append(name)
        if len(calls) == 2:
            second.set()

    def inside(ctx: Context, name: str) -> None:
        if not first.is_set():
            first.set()
            assert go_on.wait(PATIENCE)

    books.on("own", before=before, inside=inside)
    async with books.app as app:
        await books.emit("a1", "a2")
        async with app.worker():
            assert await asyncio.to_thread(first.wait, PATIENCE)
            async with app.worker():
                await books.depose()
                assert await asyncio.to_thread(second.wait, PATIENCE)
                await _waits_for_the_row(books)
                go_on.set()
                await books.settled(2)
        assert await books.ledger() == ["a1", "a2"]
    assert calls[:2] == ["a1", "a1"]


async def _waits_for_the_row(books: PostgresBooks) -> None:
    sql = """SELECT 1 FROM pg_stat_activity
        WHERE wait_event_type = 'Lock' AND query LIKE '%write_in%' AND datname = current_database()"""
    await until_async(lambda: books.shop.query(sql), "another completes as well")


@every_way
async def test_a_commit_whose_answer_was_lost_is_found_in_the_store(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    books = PostgresBooks(postgres_url)
    calls = Once("", boom)
    books.on(way, before=calls)
    async with books.app as app, app.worker():
        with answer_lost(monkeypatch) as lost:
            await books.emit("a1", "a2")
            await books.settled(2)
            assert lost == ["asyncpg" if way == "transaction" else "psycopg"]
        assert await books.ledger() == ["a1", "a2"]
    assert calls.calls == {"a1": 1, "a2": 1}


@every_way
async def test_a_commit_that_never_was_is_done_again(postgres_url: str, way: str) -> None:
    books = PostgresBooks(postgres_url)
    await books.shop.query(DEADLY)
    pay = books.shop.pay
    deadly = Once("a1", lambda: setattr(books.shop, "pay", lambda entry: f"{pay(entry)}; {DIE}"))

    def before(ctx: Context, name: str) -> None:
        vars(books.shop).pop("pay", None)
        deadly(ctx, name)

    books.on(way, before=before)
    async with books.app as app, app.worker():
        await books.emit("a1", "a2")
        await books.settled(2)
        assert await books.ledger() == ["a1", "a2"]
    assert deadly.calls == {"a1": 2, "a2": 1}


async def test_an_own_connection_of_asyncpg_takes_the_progress_along(postgres_url: str) -> None:
    books = PostgresBooks(postgres_url)
    runs: list[tuple[str, int]] = []

    @books.app.on(TOPIC, group=GROUP, retry=QUICK)
    async def handle(ctx: Context, event: Event[str]) -> None:
        runs.append((event.data, ctx.run))
        async with books.own_async() as connection, connection.transaction():
            await books.pay(connection, event.data)
            await ctx.complete_in(connection)
            if runs == [("a1", 1)]:
                raise ValueError("rolled back")

    async with books.app as app, app.worker():
        await books.emit("a1", "a2")
        await books.settled(2)
        assert await books.ledger() == ["a1", "a2"]
    assert runs == [("a1", 1), ("a1", 2), ("a2", 1)]
