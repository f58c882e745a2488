"""Bringing the write-ahead log back into the file, by one process at a time."""

import logging
import os
import sqlite3
import sys

from holdfast.stores.sqlite.address import Address

if sys.platform != "win32":
    import fcntl

_log = logging.getLogger(__name__)

CHANGES = 16_000
"""So many changed rows of our own, about four thousand pages, make a checkpoint due."""
SIGHTINGS = 20
"""So often having seen that others wrote makes one due as well."""
LARGE = 64 << 20
"""A log of so many bytes is emptied, if no reader keeps it."""


class Checkpointer:
    """Decides when this process makes a checkpoint. Used on the writer's thread only, between transactions.

    Of all processes on a file only the one that holds the lock file makes any, and only when something was
    written since its last one: see docs/decisions/0002-sqlite-binding.md.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._lock: int | None = None
        self._changes = 0
        self._sightings = 0

    @property
    def is_elected(self) -> bool:
        return self._lock is not None

    def note_changes(self, count: int) -> None:
        """Counts rows that this process has changed and committed."""
        self._changes += count

    def note_sighting(self, *, often: bool) -> None:
        """Counts that another connection has written; more if this process does not look often."""
        self._sightings += 1 if often else SIGHTINGS // 2

    def is_due(self) -> bool:
        return self._changes >= CHANGES or self._sightings >= SIGHTINGS

    def run(self, connection: sqlite3.Connection) -> None:
        """Makes a checkpoint if one is due and this process is the one to make it."""
        if not self.is_due() or not self._elect():
            return
        self._changes = self._sightings = 0
        mode = "TRUNCATE" if self._size() > LARGE else "PASSIVE"
        try:
            connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()
        except sqlite3.Error as error:
            _log.warning("checkpoint failed", extra={"fields": {"error": str(error)}})

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _size(self) -> int:
        try:
            return self._address.wal.stat().st_size
        except OSError:
            return 0

    def _elect(self) -> bool:
        """Takes the lock that makes this process the checkpointer, if nobody has it."""
        if self._lock is not None:
            return True
        if sys.platform == "win32":
            return True
        handle = os.open(self._address.checkpointer, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            self._changes = self._sightings = 0
            return False
        self._lock = handle
        return True
