"""The file: which one a URL names, who may read it, and what is refused."""

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.model.errors import ConfigurationError, StoreError
from holdfast.stores import open_store
from holdfast.stores.sqlite import connection as module
from holdfast.stores.sqlite.address import parse
from holdfast.stores.sqlite.statements import Statement
from holdfast.stores.sqlite.transaction import Transaction
from tests.sqlite.support import file_of, new_job, session_at, store_at


def test_three_slashes_are_relative_and_four_absolute() -> None:
    assert parse("sqlite:///jobs.db").path == Path.cwd() / "jobs.db"
    assert parse("sqlite:////var/jobs.db").path == Path("/var/jobs.db")
    assert parse("sqlite:////var/my%20jobs%3F.db").path == Path("/var/my jobs?.db")


def test_settings_follow_the_question_mark() -> None:
    address = parse("sqlite:///jobs.db?prefix=hf_&synchronous=NORMAL&timeout=2.5")
    assert (address.prefix, address.synchronous, address.patience) == ("hf_", "normal", 2.5)


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("sqlite://jobs.db", "sqlite:///relative.db"),
        ("sqlite:///", "not a file"),
        ("sqlite:///:memory:", "memory://"),
        ("sqlite:///folder/", "not a file"),
        ("sqlite:///jobs.db?prefix=a-b", "prefix"),
        ("sqlite:///jobs.db?prefix=sqlite_", "prefix"),
        ("sqlite:///jobs.db?synchronous=off", "synchronous"),
        ("sqlite:///jobs.db?timeout=soon", "timeout"),
        ("sqlite:///jobs.db?timeout=-1", "timeout"),
        ("sqlite:///jobs.db?cache=shared", "'cache'"),
    ],
)
def test_a_url_that_cannot_work_is_refused_by_name(url: str, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        open_store(url)


def modes_in(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


async def test_the_files_are_for_their_owner_only(tmp_path: Path) -> None:
    async with session_at(tmp_path) as session:
        await session.jobs.add([new_job()])
        modes = modes_in(tmp_path)
    assert {"jobs.db", "jobs.db-wal", "jobs.db-shm"} <= modes.keys()
    assert set(modes.values()) == {0o600}


async def test_the_mode_of_a_file_that_was_there_is_left_alone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(file_of(tmp_path))) as connection:
        connection.execute("CREATE TABLE mine (x)")
    file_of(tmp_path).chmod(0o640)
    async with session_at(tmp_path) as session:
        await session.jobs.add([new_job()])
    assert stat.S_IMODE(file_of(tmp_path).stat().st_mode) == 0o640


async def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    file_of(tmp_path).write_bytes(b"Dear diary, " * 1_000)
    with pytest.raises(StoreError, match=r"jobs\.db: file is not a database"):
        await store_at(tmp_path).connect("default")


async def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"missing/jobs\.db: cannot be created"):
        await store_at(tmp_path / "missing").connect("default")


async def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    async with session_at(tmp_path) as session:
        await session.jobs.add([new_job(payload=b"x" * 3_000) for _ in range(100)])
    content = bytearray(file_of(tmp_path).read_bytes())
    content[8_192:] = b"\xff" * (len(content) - 8_192)
    file_of(tmp_path).write_bytes(content)

    async def use() -> None:
        async with session_at(tmp_path) as session:
            await session.jobs.add([new_job()])

    with pytest.raises(StoreError, match=r"jobs\.db: .*restore a backup"):
        await use()


async def test_an_encoding_that_would_change_bytes_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(file_of(tmp_path))) as connection:
        connection.execute("PRAGMA encoding = 'UTF-16'")
        connection.execute("CREATE TABLE mine (x)")
    with pytest.raises(StoreError, match="needs UTF-8"):
        await store_at(tmp_path).connect("default")


async def test_an_old_sqlite_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "OLDEST", (99, 0, 0))
    with pytest.raises(StoreError, match=r"is too old: Holdfast needs 99\.0 or newer"):
        await store_at(tmp_path).connect("default")


@pytest.mark.parametrize(("asked", "level"), [("", 2), ("?synchronous=normal", 1), ("?synchronous=extra", 3)])
async def test_every_commit_is_durable_unless_told_otherwise(tmp_path: Path, asked: str, level: int) -> None:
    async with session_at(tmp_path, asked) as session:
        assert session._database is not None
        found = await session._database.write(
            1, lambda tx: tx.run_statement(Statement("PRAGMA synchronous", ()), {}).fetchone()[0]
        )
    assert found == level


async def test_our_connections_never_checkpoint_by_themselves_and_use_no_mmap(tmp_path: Path) -> None:
    async with session_at(tmp_path) as session:
        assert session._database is not None
        for ask in (session._database.write, session._database.read):
            assert await ask(1, pragmas) == [(0,), (0,)]


def pragmas(tx: Transaction) -> list[tuple[int]]:
    return [
        tx.run_statement(Statement(f"PRAGMA {name}", ()), {}).fetchone()
        for name in ("wal_autocheckpoint", "mmap_size")
    ]
