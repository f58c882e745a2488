"""The store's clock: the same for all processes of a machine, whatever their wall clocks say."""

import os
import socket
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from holdfast.model.timing import SECOND
from holdfast.stores.sqlite.statements import prefixed

Clock: TypeAlias = Callable[[], int]

STAMP_EVERY = SECOND
_TOLERANCE = 500_000_000
_READ = "SELECT wall, boot_time, boot_id, seen FROM holdfast_clock WHERE one = 1"
_ANCHOR = (
    "INSERT INTO holdfast_clock (one, wall, boot_time, boot_id, seen) VALUES (1, ?, ?, ?, ?) "
    "ON CONFLICT (one) DO UPDATE SET wall = excluded.wall, boot_time = excluded.boot_time, "
    "boot_id = excluded.boot_id, seen = excluded.seen"
)
_STAMP = "UPDATE holdfast_clock SET seen = max(seen, ?) WHERE one = 1"


class AnchoredClock:
    """Microseconds since 1970, counted by the machine's boot clock from an anchor that the file keeps.

    The first process after a boot sets the anchor by its wall clock; all others only count from there, so
    that a wrong wall clock in one of them changes nothing. It never goes back, not even over a reboot: a new
    anchor is not below what was `seen`.
    """

    def __init__(self, prefix: str) -> None:
        self._read = prefixed(_READ, prefix)
        self._anchor = prefixed(_ANCHOR, prefix)
        self._stamp = prefixed(_STAMP, prefix)
        self._ticks, self._boot = boot_clock()
        self._offset = 0
        self._last = 0
        self._stamped = 0

    def __call__(self) -> int:
        now = (self._ticks() + self._offset) // 1_000
        if now < self._last:
            return self._last
        self._last = now
        return now

    def read_anchor(self, connection: sqlite3.Connection) -> bool:
        """Takes the anchor from the file; False if it has none of this boot."""
        row = connection.execute(self._read).fetchone()
        if row is None or row[2] != self._boot.encode():
            return False
        self._begin(row[0], row[1], row[3])
        return True

    def set_anchor(self, connection: sqlite3.Connection) -> None:
        """Sets the anchor, unless another process has meanwhile. Called in a write transaction."""
        if self.read_anchor(connection):
            return
        row = connection.execute(self._read).fetchone()
        wall, boot_time = time.time_ns() // 1_000, self._ticks()
        seen = wall if row is None else row[3]
        if row is not None:
            wall = max(wall, seen + STAMP_EVERY)
        connection.execute(self._anchor, (wall, boot_time, self._boot, seen))
        self._begin(wall, boot_time, seen)

    def _begin(self, wall: int, boot_time: int, seen: int) -> None:
        self._offset = wall * 1_000 - boot_time
        self._stamped = seen

    def stamp(self, connection: sqlite3.Connection, now: int) -> None:
        """Notes in the file, once in a while, how far time has come. Called in a write transaction."""
        if now - self._stamped >= STAMP_EVERY:
            connection.execute(self._stamp, (now,))
            self._stamped = now


def boot_clock() -> tuple[Callable[[], int], str]:
    """Nanoseconds since boot, and what tells this boot from others.

    Where the system does not tell its boots apart every process is its own, and sets an anchor of its own.
    """
    own = f"{socket.gethostname()}:{os.getpid()}:{time.monotonic_ns()}"
    if sys.platform == "linux":
        try:
            boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
            drift = _drift()
        except OSError:
            return time.monotonic_ns, own
        # Unlike the monotonic clock it goes on while the machine sleeps.
        ticks: Callable[[], int] = lambda: time.clock_gettime_ns(time.CLOCK_BOOTTIME) + drift  # noqa: E731
    else:
        ticks, boot = time.monotonic_ns, own
    return ticks, boot


if sys.platform == "linux":

    def _drift() -> int:
        """How far the boot clock is off, if somebody pretends another time to this process."""
        uptime = Path("/proc/uptime").read_text(encoding="ascii").split()[0]
        drift = int(float(uptime) * 1e9) - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        return drift if abs(drift) > _TOLERANCE else 0
