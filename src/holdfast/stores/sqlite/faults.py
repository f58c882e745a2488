"""What SQLite's errors mean to a caller."""

import os
import sqlite3
from pathlib import Path

from holdfast.model.errors import OutcomeUnknown, SchemaMismatch, StoreError, StoreFull, StoreUnavailable

_PRIMARY = 0xFF
_NO_ROOM = 1 << 20
_WRITING = frozenset(
    {sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_TRUNCATE}
)
_LOCKED = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})


def translated(error: Exception, path: Path, *, committing: bool = False) -> Exception:
    """The error of ours that says what happened; one that is not SQLite's stays what it is."""
    if not isinstance(error, sqlite3.Error):
        return error
    code = getattr(error, "sqlite_errorcode", None)
    answer = _answer(code, error, path, committing=committing)
    answer.__cause__ = error
    return answer


def is_locked(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & _PRIMARY in _LOCKED


def _answer(code: int | None, error: Exception, path: Path, *, committing: bool) -> StoreError:
    if code is None:
        return StoreError(f"{path}: {error}")
    primary = code & _PRIMARY
    if primary == sqlite3.SQLITE_FULL or (code in _WRITING and _is_full(path)):
        return StoreFull(f"{path}: no space left; nothing was written")
    if code == sqlite3.SQLITE_BUSY_SNAPSHOT:
        return StoreUnavailable(
            f"{path}: another process wrote after this transaction had begun to read; begin it with "
            "BEGIN IMMEDIATE"
        )
    if primary in _LOCKED:
        return StoreUnavailable(f"{path}: locked by another process for too long; nothing was written")
    if primary in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
        return StoreError(
            f"{path}: {error}. The file is damaged or not a SQLite database: restore a backup, "
            "or rescue what is readable with `sqlite3 FILE .recover`"
        )
    if primary in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}:
        return StoreError(f"{path}: cannot be written ({error}); check the permissions of file and folder")
    if committing and primary == sqlite3.SQLITE_IOERR and code not in _WRITING:
        return OutcomeUnknown(f"{path}: the commit failed ({error}), and a crash now might still reveal it")
    if primary in {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM}:
        return StoreUnavailable(f"{path}: {error}; nothing was written")
    if "no such table" in str(error) or "no such column" in str(error):
        return SchemaMismatch(f"{path}: {error}; run: holdfast migrate")
    return StoreError(f"{path}: {error}")


def _is_full(path: Path) -> bool:
    try:
        room = os.statvfs(path.parent)
    except (OSError, AttributeError):
        return False
    return room.f_bavail * room.f_frsize < _NO_ROOM
