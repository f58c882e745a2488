"""Checkpoints: by one process, never without new frames, and the log stays small."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.stores.sqlite import checkpoint
from holdfast.stores.sqlite.address import Address, parse
from holdfast.stores.sqlite.checkpoint import CHANGES, SIGHTINGS, Checkpointer
from tests.sqlite.support import file_of, new_job, session_at, store_at, url_of


@pytest.fixture
def address(tmp_path: Path) -> Address:
    return parse(url_of(tmp_path))


@pytest.fixture
def connection(address: Address) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(address.path, isolation_level=None)) as made:
        made.execute("PRAGMA journal_mode = WAL")
        made.execute("PRAGMA wal_autocheckpoint = 0")
        made.execute("CREATE TABLE t (x)")
        yield made


class Modes(list[str]):
    """Which checkpoints a connection was asked for."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__()
        connection.set_trace_callback(lambda sql: self.append(sql) if "wal_checkpoint" in sql else None)


def test_a_checkpoint_is_made_when_enough_was_changed_and_not_again_before_more_was(
    address: Address, connection: sqlite3.Connection
) -> None:
    modes = Modes(connection)
    checkpointer = Checkpointer(address)
    checkpointer.note_changes(CHANGES - 1)
    checkpointer.run(connection)
    assert modes == []
    checkpointer.note_changes(1)
    checkpointer.run(connection)
    checkpointer.run(connection)
    assert modes == ["PRAGMA wal_checkpoint(PASSIVE)"]
    for _ in range(SIGHTINGS):
        checkpointer.run(connection)
        assert len(modes) == 1
        checkpointer.note_sighting(often=True)
    checkpointer.run(connection)
    checkpointer.run(connection)
    assert len(modes) == 2
    for _ in range(2):
        checkpointer.note_sighting(often=False)
    checkpointer.run(connection)
    assert len(modes) == 3
    checkpointer.close()


def test_only_one_is_elected_and_another_when_it_has_gone(
    address: Address, connection: sqlite3.Connection
) -> None:
    modes = Modes(connection)
    one, two = Checkpointer(address), Checkpointer(address)
    for checkpointer in (one, two):
        checkpointer.note_changes(CHANGES)
        checkpointer.run(connection)
    assert (one.is_elected, two.is_elected, len(modes)) == (True, False, 1)
    one.close()
    two.note_changes(CHANGES)
    two.run(connection)
    assert (two.is_elected, len(modes)) == (True, 2)
    two.close()


def test_a_large_log_is_emptied(
    address: Address, connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "LARGE", 100_000)
    connection.execute("INSERT INTO t VALUES (zeroblob(200000))")
    modes = Modes(connection)
    checkpointer = Checkpointer(address)
    checkpointer.note_changes(CHANGES)
    checkpointer.run(connection)
    assert modes == ["PRAGMA wal_checkpoint(TRUNCATE)"]
    assert address.wal.stat().st_size == 0
    checkpointer.close()


def test_a_reader_that_stays_does_not_make_a_checkpoint_fail(
    address: Address, connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "LARGE", 0)
    connection.execute("PRAGMA busy_timeout = 0")
    with closing(sqlite3.connect(address.path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM t").fetchall()
        connection.execute("INSERT INTO t VALUES (1)")
        checkpointer = Checkpointer(address)
        checkpointer.note_changes(CHANGES)
        checkpointer.run(connection)
        assert reader.execute("SELECT count(*) FROM t").fetchone() == (0,)
        checkpointer.close()


async def test_the_log_stays_small_while_much_is_written(tmp_path: Path) -> None:
    async with session_at(tmp_path) as session:
        for _ in range(40):
            await session.jobs.add([new_job(payload=b"x" * 500) for _ in range(500)])
        size = file_of(tmp_path).with_name("jobs.db-wal").stat().st_size
    assert size < 16 << 20


async def test_the_last_one_who_closes_leaves_one_whole_file(tmp_path: Path) -> None:
    job = new_job()
    async with session_at(tmp_path) as session:
        await session.jobs.add([job])
    assert not file_of(tmp_path).with_name("jobs.db-wal").exists()
    facts = await store_at(tmp_path).facts()
    assert facts["integrity"] == "integrity_check: ok"
