"""Transactions that commit after their attempt was given up: refused, or the only effect; nothing is lost."""

import asyncio
import threading
from pathlib import Path

import pytest

from holdfast import Context, Event, Fixed
from tests.chaos.waiting import until_async
from tests.engine.ledgers import GROUP, TOPIC, Books, PostgresBooks, SqliteBooks
from tests.engine.rig import PATIENCE


@pytest.fixture(params=["sqlite", "postgres"])
def books(request: pytest.FixtureRequest, tmp_path: Path) -> Books:
    if request.param == "postgres":
        return PostgresBooks(request.getfixturevalue("postgres_url"), kill_seconds=0.1)
    return SqliteBooks(tmp_path, kill_seconds=0.1)


class Late:
    """Subscribes a handler, one run of which outlasts its time, and pays only when it is let go."""

    def __init__(self, books: Books, run: int, wait: float) -> None:
        self._gate, self._over = threading.Event(), threading.Event()
        self.errors: list[BaseException] = []

        @books.app.on(TOPIC, group=GROUP, retry=Fixed(9, wait=wait), timeout=0.1)
        def handle(ctx: Context, event: Event[str]) -> None:
            if event.data != "a1" or ctx.run != run:
                if event.data == "a1" and ctx.run < run:
                    raise ValueError("at first")
                self._pay(books, ctx, event)
                return
            assert self._gate.wait(PATIENCE)
            try:
                self._pay(books, ctx, event)
            except BaseException as error:
                self.errors.append(error)
                raise
            finally:
                self._over.set()

    def _pay(self, books: Books, ctx: Context, event: Event[str]) -> None:
        with ctx.sync_transaction() as tx:
            books.pay_sync(tx.connection, event.data)

    async def go_on(self) -> None:
        """Lets the late one go on to its end."""
        self._gate.set()
        assert await asyncio.to_thread(self._over.wait, PATIENCE)


async def test_an_attempt_that_timed_out_commits_nothing_once_another_has_succeeded(books: Books) -> None:
    late = Late(books, run=1, wait=0)
    async with books.app as app, app.worker():
        await books.emit("a1", "a2")
        await books.settled(2)
        await late.go_on()
        assert [type(error).__name__ for error in late.errors] == ["LeaseLost"]
        assert await books.ledger() == ["a1", "a2"]


async def test_an_attempt_that_timed_out_and_would_commit_before_the_next_is_refused(books: Books) -> None:
    late = Late(books, run=1, wait=1)
    async with books.app as app, app.worker():
        await books.emit("a1")
        await books.seen.wait("event_failed")
        await late.go_on()
        await books.settled(1)
        assert await books.ledger() == ["a1"]


async def test_an_attempt_that_timed_out_loses_nothing_that_came_for_its_aggregate_since(
    books: Books,
) -> None:
    late = Late(books, run=2, wait=1.5)
    async with books.app as app, app.worker():
        await books.emit("a1")
        await books.seen.wait("event_failed", 2)
        await books.emit("a2", "b1")
        await until_async(app.events.groups, "a2 waits behind a1", lambda infos: infos[0].offset == 3)
        await late.go_on()
        await books.settled(3)
        assert await books.ledger() == ["a1", "a2", "b1"]


async def test_a_commit_that_is_done_only_after_its_attempt_has_failed_is_the_only_effect(
    postgres_url: str,
) -> None:
    books = PostgresBooks(postgres_url)
    open_one, commit = asyncio.Event(), asyncio.Event()
    runs: list[str] = []

    async def transact(ctx: Context, event: Event[str]) -> None:
        async with books.own_async() as connection, connection.transaction():
            await books.pay(connection, event.data)
            await ctx.complete_in(connection)
            open_one.set()
            await commit.wait()

    @books.app.on(TOPIC, group=GROUP, retry=Fixed(3, wait=0))
    async def handle(ctx: Context, event: Event[str]) -> None:
        runs.append(event.data)
        if runs == ["a1"]:
            transactions.append(asyncio.create_task(transact(ctx, event)))
            await open_one.wait()
            raise ConnectionError("the answer to COMMIT was lost")
        async with ctx.transaction() as tx:
            await books.pay(tx.connection, event.data)

    transactions: list[asyncio.Task[None]] = []
    async with books.app as app, app.worker():
        await books.emit("a1", "a2")
        await until_async(lambda: books.shop.query(BLOCKED), "its failure is about to be stored")
        commit.set()
        await books.settled(2)
        await transactions[0]
        assert await books.ledger() == ["a1", "a2"]
    assert runs == ["a1", "a2"]


BLOCKED = """SELECT 1 FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND query LIKE '%schedule_write%' AND datname = current_database()"""
