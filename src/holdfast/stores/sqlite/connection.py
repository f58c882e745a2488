"""Connections to the file: how each is opened, and what is refused."""

import os
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

from holdfast.model.errors import StoreError
from holdfast.stores.sqlite.address import Address
from holdfast.stores.sqlite.faults import translated

OLDEST = (3, 35, 0)
CACHE_KIB = 20_000


def connect(address: Address, *, patience: float, read_only: bool = False) -> sqlite3.Connection:
    """A connection in autocommit mode that gives text as bytes. `patience` is SQLite's own busy timeout."""
    check_library()
    create_file(address.path)
    connection = sqlite3.connect(
        address.path,
        timeout=patience,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    try:
        _prepare(connection, address, read_only=read_only)
    except BaseException:
        connection.close()
        raise
    connection.text_factory = bytes
    return connection


@contextmanager
def opened(address: Address) -> Generator[sqlite3.Connection]:
    """A connection for a short while, whose errors are ours."""
    try:
        with closing(connect(address, patience=address.patience)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise translated(error, address.path) from error


def check_library() -> None:
    if sqlite3.sqlite_version_info < OLDEST:
        oldest = ".".join(map(str, OLDEST[:2]))
        raise StoreError(
            f"SQLite {sqlite3.sqlite_version} is too old: Holdfast needs {oldest} or newer. "
            "It belongs to Python's sqlite3 module: use a newer Python or system library"
        )


def create_file(path: Path) -> None:
    """Makes the file if it is not there, readable by its owner only; SQLite's side files follow its mode."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise StoreError(f"{path}: cannot be created: {error.strerror}") from error


def _prepare(connection: sqlite3.Connection, address: Address, *, read_only: bool) -> None:
    [mode] = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StoreError(f"{address.path}: the write-ahead log is not possible here (journal mode {mode})")
    [encoding] = connection.execute("PRAGMA encoding").fetchone()
    if encoding != "UTF-8":
        raise StoreError(f"{address.path}: the encoding is {encoding}, Holdfast needs UTF-8")
    for setting in (
        f"synchronous = {address.synchronous}",
        # Checkpoints are made by one process, in one place: see docs/decisions/0002-sqlite-binding.md.
        "wal_autocheckpoint = 0",
        "mmap_size = 0",
        f"cache_size = -{CACHE_KIB}",
        "temp_store = memory",
        # Overwrites what is deleted where that needs no extra page.
        "secure_delete = fast",
        f"query_only = {int(read_only)}",
    ):
        connection.execute(f"PRAGMA {setting}").fetchall()
