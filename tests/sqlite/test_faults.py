"""Which of the three outcomes a caller is told when SQLite fails."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.errors import (
    OutcomeUnknown,
    SchemaMismatch,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from holdfast.model.records import Query
from holdfast.stores.sqlite.faults import translated
from tests.sqlite.support import new_job, session_at

FILE = Path("/somewhere/jobs.db")


def fault(code: int, message: str = "it broke") -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(message)
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("code", "committing", "kind"),
    [
        (sqlite3.SQLITE_BUSY, False, StoreUnavailable),
        (sqlite3.SQLITE_BUSY_RECOVERY, False, StoreUnavailable),
        (sqlite3.SQLITE_LOCKED, False, StoreUnavailable),
        (sqlite3.SQLITE_FULL, False, StoreFull),
        (sqlite3.SQLITE_FULL, True, StoreFull),
        (sqlite3.SQLITE_IOERR_READ, False, StoreUnavailable),
        (sqlite3.SQLITE_IOERR_WRITE, True, StoreUnavailable),
        (sqlite3.SQLITE_IOERR_FSYNC, False, StoreUnavailable),
        (sqlite3.SQLITE_IOERR_FSYNC, True, OutcomeUnknown),
        (sqlite3.SQLITE_CANTOPEN, False, StoreUnavailable),
        (sqlite3.SQLITE_NOMEM, False, StoreUnavailable),
        (sqlite3.SQLITE_CORRUPT, False, StoreError),
        (sqlite3.SQLITE_NOTADB, False, StoreError),
        (sqlite3.SQLITE_READONLY, False, StoreError),
        (sqlite3.SQLITE_TOOBIG, False, StoreError),
    ],
)
def test_each_fault_has_its_outcome_and_names_the_file(
    code: int, committing: bool, kind: type[StoreError]
) -> None:
    error = fault(code)
    told = translated(error, FILE, committing=committing)
    assert type(told) is kind
    assert str(FILE) in str(told)
    assert told.__cause__ is error


def test_a_missing_table_says_what_to_run() -> None:
    told = translated(fault(sqlite3.SQLITE_ERROR, "no such table: holdfast_job"), FILE)
    assert isinstance(told, SchemaMismatch)
    assert "run: holdfast migrate" in str(told)


def test_what_is_not_of_sqlite_stays_what_it_is() -> None:
    error = ZeroDivisionError()
    assert translated(error, FILE) is error


class Faulty(sqlite3.Connection):
    """A connection whose next commit fails."""

    fault: sqlite3.OperationalError | None = None

    def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
        error = type(self).fault
        if sql == "COMMIT" and error is not None and self.in_transaction and self.total_changes:
            type(self).fault = None
            raise error
        return super().execute(sql, parameters)


@pytest.mark.parametrize(
    ("code", "kind"),
    [(sqlite3.SQLITE_IOERR_FSYNC, OutcomeUnknown), (sqlite3.SQLITE_FULL, StoreFull)],
)
async def test_a_commit_that_fails_is_undone_and_the_next_one_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[StoreError]
) -> None:
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **more: connect(*args, factory=Faulty, **more))
    async with session_at(tmp_path) as session:
        await session.jobs.add([new_job()])
        job = new_job()
        monkeypatch.setattr(Faulty, "fault", fault(code))
        with pytest.raises(kind):
            await session.jobs.add([job])
        assert len(await session.jobs.find(Query())) == 1
        assert (await session.jobs.add([job]))[0].created
        assert len(await session.jobs.find(Query())) == 2
