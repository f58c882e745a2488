"""A damaged row of each kind in a SQLite file: the schema refuses it, or nobody is held up by it."""

import asyncio
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.hostile.rounds import complaints
from tests.hostile.shop import GROUP, fill, make_shop

NUMBERS = ("'x'", "-9223372036854775808", "9223372036854775807", "1.5", "99", "NULL", "x'ff'")
TEXTS = ("x'ff'", "'not json'", "CAST(x'ff' AS TEXT)", "'[1,2]'", "''", "NULL")
BYTES = ("x'ff'", "'[[['", "x'80049503000000000000004b2a2e'", "NULL")
HOSTILE = {"INTEGER": NUMBERS, "REAL": NUMBERS, "TEXT": TEXTS, "BLOB": BYTES}
# Which namespace a row belongs to, or which file it is, is not part of what it says.
OUTSIDE = {"pk", "ns", "one"}
KINDS = [
    *("clock", "body", "job", "done", "attempt", "key", "tally", "worker", "queue", "lock", "lock_line"),
    *("lock_token", "schedule", "event", "event_head", "flow", "limit", "rate", "line", "halt", "fair"),
    "link",
]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "jobs.db"
    asyncio.run(fill(make_shop(f"sqlite:///{path}")))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


def damage(path: Path, table: str) -> int:
    """Tries every hostile value in every column, each in the next row of the table; how many were taken."""
    taken = 0
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
        keys = ", ".join(name for _, name, _, _, _, place in columns if place)
        # A group whose own progress is destroyed cannot go on; that is another test.
        others = f"WHERE name <> '~{GROUP} orders'" if table == "holdfast_schedule" else ""
        (rows,) = connection.execute(f"SELECT count(*) FROM {table} {others}").fetchone()
        for _, column, kind, *_ in columns:
            if column in OUTSIDE:
                continue
            for value in HOSTILE[kind]:
                row = f"SELECT {keys} FROM {table} {others} LIMIT 1 OFFSET {taken % rows}"
                try:
                    connection.execute(f"UPDATE {table} SET {column} = {value} WHERE ({keys}) = ({row})")
                except sqlite3.IntegrityError:
                    continue
                taken += 1
    return taken


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.timeout(180)
def test_damaged_rows_hold_up_nobody(tmp_path: Path, filled: Path, kind: str) -> None:
    path = Path(shutil.copy(filled, tmp_path / "jobs.db"))
    damage(path, f"holdfast_{kind}")
    assert complaints(make_shop(f"sqlite:///{path}")) == []


def test_every_table_is_damaged(filled: Path) -> None:
    with closing(sqlite3.connect(filled)) as connection:
        tables = {
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            if connection.execute(f"SELECT count(*) FROM {name}").fetchone() != (0,)
        }
    assert tables - {f"holdfast_{kind}" for kind in KINDS} == {"holdfast_schema", "holdfast_namespace"}


def test_wrong_types_and_numbers_beyond_counting_are_refused(tmp_path: Path, filled: Path) -> None:
    path = Path(shutil.copy(filled, tmp_path / "jobs.db"))
    with closing(sqlite3.connect(path)) as connection:
        for change in ("due = 'x'", "version = 9223372036854775807", "state = 99", "task = x'ff'"):
            with pytest.raises(sqlite3.IntegrityError):
                connection.execute(f"UPDATE holdfast_job SET {change}")
