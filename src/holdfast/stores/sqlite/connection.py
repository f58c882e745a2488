"""Connections to the file: how each is opened, and what is refused."""

import os
import random
import sqlite3
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from holdfast.model.errors import StoreError
from holdfast.stores.sqlite.address import Address
from holdfast.stores.sqlite.faults import is_locked, translated

T = TypeVar("T")

OLDEST = (3, 37, 0)
CACHE_KIB = 20_000
_SHORTEST_WAIT = 0.000_5
_LONGEST_WAIT = 0.005


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


def insist(act: Callable[[], T], patience: float, rest: Callable[[float], None] = time.sleep) -> T:
    """What the act gives; while another process holds a lock it is tried again, in short steps."""
    deadline = time.monotonic() + patience
    wait = _SHORTEST_WAIT
    while True:
        try:
            return act()
        except sqlite3.OperationalError as error:
            if not is_locked(error) or time.monotonic() >= deadline:
                raise
        rest(wait * random.uniform(0.5, 1.5))
        wait = min(_LONGEST_WAIT, wait * 1.3)


def check_library() -> None:
    if sqlite3.sqlite_version_info < OLDEST:
        oldest = ".".join(map(str, OLDEST[:2]))
        raise StoreError(
            f"SQLite {sqlite3.sqlite_version} is too old: Holdfast needs {oldest} or newer. "
            "It belongs to Python's sqlite3 module: use a newer Python or system library"
        )
    if not _has_json():
        raise StoreError(f"SQLite {sqlite3.sqlite_version} was built without JSON, which Holdfast needs")


@lru_cache(maxsize=1)
def _has_json() -> bool:
    """Before 3.38 it was a choice of whoever built SQLite."""
    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            return bool(connection.execute("SELECT json_array(1)").fetchone())
        except sqlite3.OperationalError:
            return False


def create_file(path: Path) -> None:
    """Makes the file if it is not there, readable by its owner only; SQLite's side files follow its mode."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise StoreError(f"{path}: cannot be created: {error.strerror}") from error


def _use_wal(connection: sqlite3.Connection, address: Address) -> None:
    """Asks first: SQLite does not wait for others when it changes the mode, even to what it is."""
    [mode] = connection.execute("PRAGMA journal_mode").fetchone()
    if mode != "wal":
        [mode] = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StoreError(f"{address.path}: the write-ahead log is not possible here (journal mode {mode})")


def _prepare(connection: sqlite3.Connection, address: Address, *, read_only: bool) -> None:
    insist(lambda: _use_wal(connection, address), address.patience)
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
