"""What an operator should know about a file."""

import os
import sqlite3
import time
from pathlib import Path

from holdfast.stores.sqlite.address import Address
from holdfast.stores.sqlite.clock import AnchoredClock
from holdfast.stores.sqlite.connection import opened
from holdfast.stores.sqlite.schema import stored_version

_NETWORKED = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "fuse.glusterfs", "ceph", "lustre", "afs"}
)
_BIG = 256 << 20
_CLOCK_OFF = 60.0


def facts(address: Address) -> dict[str, str]:
    """Blocks; on a big file for a while, because it is checked whole."""
    found = {
        "engine": "sqlite",
        "version": sqlite3.sqlite_version,
        "file": str(address.path),
        "durability": f"synchronous={address.synchronous.upper()}: {_DURABILITY[address.synchronous]}",
    }
    if address.path.exists():
        with opened(address) as connection:
            found |= _inside(connection, address)
    else:
        found["schema"] = "none: the file is not there yet"
    if address.synchronous == "normal":
        found["warning durability"] = "commits of the last moments can be lost when the machine loses power"
    if has_wal_reset_bug(sqlite3.sqlite_version_info):
        found["warning version"] = _WAL_RESET
    kind = _file_system(address.path.parent)
    if kind in _NETWORKED:
        found["warning file system"] = f"{kind} is a network file system, on which SQLite's locks can fail"
    return found


_DURABILITY = {
    "normal": "commits survive a crash of the process, not always a loss of power",
    "full": "every commit is on the disk before it is answered",
    "extra": "every commit is on the disk before it is answered",
}
_WAL_RESET = (
    f"SQLite {sqlite3.sqlite_version} has the WAL-reset bug (fixed in 3.51.3, 3.50.7 and 3.44.6). "
    "Holdfast's own connections avoid it: one process makes checkpoints, and none without new frames. "
    "Set wal_autocheckpoint = 0 on other connections that write to this file"
)


def has_wal_reset_bug(version: tuple[int, ...]) -> bool:
    """Whether this SQLite may corrupt a file when checkpoints and commits of several connections meet."""
    if (3, 44, 6) <= version < (3, 45) or (3, 50, 7) <= version < (3, 51):
        return False
    return (3, 7, 0) <= version <= (3, 51, 2)


def _inside(connection: sqlite3.Connection, address: Address) -> dict[str, str]:
    version, _ = stored_version(connection, address)
    [mode] = connection.execute("PRAGMA journal_mode").fetchone()
    found = {
        "journal mode": mode.decode(),
        "schema": f"version {version}" if version else "none: run holdfast migrate",
        "file size": _size(address.path),
        "log size": _size(address.wal),
        "integrity": _integrity(connection, address.path),
    }
    clock = AnchoredClock(address.prefix)
    if version and clock.read_anchor(connection):
        off = clock() / 1e6 - time.time()
        if abs(off) > _CLOCK_OFF:
            found["warning clock"] = f"the store's clock is {off:+.0f} s off this process's wall clock"
    return found


def _integrity(connection: sqlite3.Connection, path: Path) -> str:
    check = "quick_check" if path.stat().st_size > _BIG else "integrity_check"
    rows = connection.execute(f"PRAGMA {check}(5)").fetchall()
    return f"{check}: " + "; ".join(row[0].decode(errors="replace") for row in rows)


def _size(path: Path) -> str:
    try:
        return f"{path.stat().st_size / 1_048_576:.1f} MiB"
    except OSError:
        return "0.0 MiB"


def _file_system(folder: Path) -> str:
    """The kind of file system that a folder is on, where the system tells."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    best, kind = "", ""
    real = os.path.realpath(folder)
    for line in lines:
        left, _, right = line.partition(" - ")
        point = left.split()[4].encode().decode("unicode_escape")
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, right.split()[0]
    return kind
