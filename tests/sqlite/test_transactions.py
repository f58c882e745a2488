"""Jobs that join a transaction of the user's own: they stand or fall with it."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.model.errors import ConfigurationError, NotInTransaction, SchemaMismatch, StoreUnavailable
from holdfast.model.lifecycle import State
from holdfast.model.records import Move, NewJob, Query, Verdict
from holdfast.stores.sqlite import adding
from holdfast.stores.sqlite.transaction import Transaction
from tests.sqlite.support import file_of, new_job, register, session_at, store_at, success, tick


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A connection as users make it, with a table of their own, and rows as they like them."""
    asyncio.run(store_at(tmp_path).migrations.apply())
    with closing(sqlite3.connect(file_of(tmp_path))) as made:
        made.row_factory = sqlite3.Row
        made.execute("CREATE TABLE bill (number INTEGER)")
        yield made


async def test_a_job_and_the_users_row_are_committed_together(
    tmp_path: Path, connection: sqlite3.Connection
) -> None:
    job = new_job(key="bill-1", key_ttl=1_000, tags=("a",))
    with connection:
        connection.execute("INSERT INTO bill VALUES (1)")
        [added] = store_at(tmp_path).transactions.add_in_sync(connection, "default", [job])
        assert added.created
        assert connection.in_transaction
    async with session_at(tmp_path) as session:
        assert await session.jobs.get(job.id) == added.record
    assert connection.row_factory is sqlite3.Row
    assert connection.text_factory is str


def test_rows_and_texts_of_the_users_own_making_do_no_harm(
    tmp_path: Path, connection: sqlite3.Connection
) -> None:
    connection.row_factory = lambda cursor, row: {"first": row[0]}
    connection.text_factory = lambda text: text.decode().upper()
    job = new_job()
    for created in (True, False):
        connection.execute("INSERT INTO bill VALUES (1)")
        [added] = store_at(tmp_path).transactions.add_in_sync(connection, "default", [job])
        assert (added.created, added.record.id) == (created, job.id)
        connection.commit()
    assert connection.execute("SELECT 'kept'").fetchone() == {"first": "KEPT"}


async def test_a_rollback_takes_job_key_and_namespace_with_it(
    tmp_path: Path, connection: sqlite3.Connection
) -> None:
    transactions = store_at(tmp_path).transactions
    connection.execute("INSERT INTO bill VALUES (1)")
    transactions.add_in_sync(connection, "brand-new", [new_job(key="k", key_ttl=1_000)])
    connection.rollback()
    async with session_at(tmp_path, namespace="brand-new") as session:
        assert await session.jobs.find(Query()) == []
        assert (await session.jobs.add([new_job(key="k")]))[0].created


def test_without_an_open_transaction_nothing_is_done(tmp_path: Path, connection: sqlite3.Connection) -> None:
    transactions = store_at(tmp_path).transactions
    with pytest.raises(NotInTransaction, match="BEGIN IMMEDIATE"):
        transactions.add_in_sync(connection, "default", [new_job()])
    with pytest.raises(NotInTransaction):
        transactions.move_in_sync(connection, "default", "ann", Move(job="x", token=1, path=()))
    with pytest.raises(NotInTransaction):
        asyncio.run(transactions.add_in(connection, "default", [new_job()]))


async def test_a_completion_is_accepted_once_and_undone_by_a_rollback(
    tmp_path: Path, connection: sqlite3.Connection
) -> None:
    transactions = store_at(tmp_path).transactions
    async with session_at(tmp_path) as session:
        await register(session)
        await session.jobs.add([new_job()])
        [job] = (await tick(session, 1)).claimed

        def complete(worker: str = "ann") -> Verdict:
            connection.execute("INSERT INTO bill VALUES (1)")
            return transactions.move_in_sync(connection, "default", worker, success(job, result=b"[1]"))

        assert complete() is Verdict.ACCEPTED
        connection.rollback()
        assert complete("bob") is Verdict.REFUSED
        connection.rollback()
        stored = await session.jobs.get(job.id)
        assert stored == job
        assert complete() is Verdict.ACCEPTED
        connection.commit()
        assert complete() is Verdict.ACCEPTED
        connection.rollback()
        stored = await session.jobs.get(job.id)
        assert stored is not None
        assert (stored.state, stored.result) == (State.SUCCESS, b"[1]")
        assert connection.execute("SELECT count(*) FROM bill").fetchone()[0] == 1
        assert len(await session.jobs.history(job.id)) == 1


async def test_an_add_that_fails_leaves_the_users_transaction_as_it_was(
    tmp_path: Path, connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(tx: Transaction, jobs: list[NewJob]) -> None:
        adding.add(tx, jobs)
        raise ZeroDivisionError

    monkeypatch.setattr("holdfast.stores.sqlite.transactions.add", half)
    with connection:
        connection.execute("INSERT INTO bill VALUES (1)")
        with pytest.raises(ZeroDivisionError):
            store_at(tmp_path).transactions.add_in_sync(connection, "default", [new_job()])
    assert connection.execute("SELECT count(*) FROM bill").fetchone()[0] == 1
    async with session_at(tmp_path) as session:
        assert await session.jobs.find(Query()) == []


def test_a_connection_to_another_file_is_refused(tmp_path: Path, connection: sqlite3.Connection) -> None:
    transactions = store_at(tmp_path).transactions
    for other in (sqlite3.connect(tmp_path / "other.db"), sqlite3.connect(":memory:")):
        with closing(other):
            other.execute("BEGIN")
            with pytest.raises(ConfigurationError, match="a transaction of its own file"):
                transactions.add_in_sync(other, "default", [new_job()])


def test_what_is_no_connection_is_refused(tmp_path: Path) -> None:
    transactions = store_at(tmp_path).transactions
    for stranger in (object(), None, "sqlite:///jobs.db"):
        with pytest.raises(ConfigurationError, match="is not a connection to SQLite"):
            transactions.add_in_sync(stranger, "default", [new_job()])
        with pytest.raises(ConfigurationError, match="is not a connection to SQLite"):
            asyncio.run(transactions.add_in(stranger, "default", [new_job()]))


def test_a_file_without_the_tables_is_told(tmp_path: Path) -> None:
    with closing(sqlite3.connect(file_of(tmp_path), isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(SchemaMismatch, match="run: holdfast migrate"):
            store_at(tmp_path).transactions.add_in_sync(connection, "default", [new_job()])


async def test_a_transaction_that_read_before_another_wrote_is_told_how_to_begin(
    tmp_path: Path, connection: sqlite3.Connection
) -> None:
    connection.execute("BEGIN")
    connection.execute("SELECT * FROM bill").fetchall()
    async with session_at(tmp_path) as session:
        await session.jobs.add([new_job()])
    with pytest.raises(StoreUnavailable, match="BEGIN IMMEDIATE"):
        store_at(tmp_path).transactions.add_in_sync(connection, "default", [new_job()])


async def test_ours_commits_on_leaving_and_is_used_like_a_connection(
    tmp_path: Path, connection: sqlite3.Connection
) -> None:
    transactions = store_at(tmp_path).transactions
    async with transactions.begin() as ours:
        await ours.executemany("INSERT INTO bill VALUES (?)", [(1,), (2,)])
        assert await ours.execute("SELECT number FROM bill WHERE number > ?", (1,)) == [(2,)]
        await transactions.add_in(ours, "default", [new_job()])
    with transactions.begin_sync() as blocking:
        assert blocking.execute("SELECT count(*) FROM bill").fetchone() == (2,)
        blocking.execute("INSERT INTO bill VALUES (3)")
    assert connection.execute("SELECT count(*) FROM bill").fetchone()[0] == 3
    async with session_at(tmp_path) as session:
        assert len(await session.jobs.find(Query())) == 1


async def test_ours_rolls_back_when_cancelled(tmp_path: Path, connection: sqlite3.Connection) -> None:
    transactions = store_at(tmp_path).transactions
    inside = asyncio.Event()

    async def never_ends() -> None:
        async with transactions.begin() as ours:
            await ours.execute("INSERT INTO bill VALUES (1)")
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.ensure_future(never_ends())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with transactions.begin() as ours:
        assert await ours.execute("SELECT count(*) FROM bill") == [(0,)]


async def test_a_lock_that_is_held_makes_ours_unavailable(
    tmp_path: Path, connection: sqlite3.Connection
) -> None:
    transactions = store_at(tmp_path, "?timeout=0.05").transactions
    connection.execute("INSERT INTO bill VALUES (1)")
    with pytest.raises(StoreUnavailable):
        async with transactions.begin():
            pytest.fail("two transactions cannot both write")
    with pytest.raises(StoreUnavailable), transactions.begin_sync():
        pytest.fail("two transactions cannot both write")


def test_statements_in_ours_wait_for_locks_as_long_as_the_setting_says(tmp_path: Path) -> None:
    transactions = store_at(tmp_path, "?timeout=0.75").transactions
    asyncio.run(store_at(tmp_path).migrations.apply())
    with transactions.begin_sync() as ours:
        assert ours.execute("PRAGMA busy_timeout").fetchone() == (750,)
