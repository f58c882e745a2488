"""Servers with little CPU time, so that it is they, and not this machine, that limit a rate."""

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.case import Missing

PERIOD = 20_000
_FIRST, _SECOND = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")


def check_quota() -> None:
    """Raises Missing where the system does not let us."""
    _group(1.0).rmdir()


@contextmanager
def limited(pids: Sequence[int], share: float) -> Iterator[None]:
    """Gives each process, with its children, so much of a core. Missing where the system does not let us."""
    groups: list[Path] = []
    try:
        for pid in pids:
            groups.append(_group(share))
            _move([pid, *_children(pid)], groups[-1])
        yield
    finally:
        for group in groups:
            _move([int(each) for each in (group / "cgroup.procs").read_text().split()], group.parent)
            group.rmdir()


def _group(share: float) -> Path:
    """A new control group, of the first or the second kind."""
    parent = _FIRST if _FIRST.is_dir() else _SECOND
    group = parent / f"holdfast-bench-{secrets.token_hex(4)}"
    quota = int(share * PERIOD)
    try:
        group.mkdir()
        if parent is _FIRST:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (group / "cpu.max").write_text(f"{quota} {PERIOD}")
    except OSError as error:
        raise Missing(f"control groups for CPU time, which need root: {error.strerror}") from error
    return group


def _move(pids: Sequence[int], group: Path) -> None:
    for pid in pids:
        if Path(f"/proc/{pid}").is_dir():
            (group / "cgroup.procs").write_text(str(pid))


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid and int(entry.parent.name) != os.getpid():
            found.append(int(entry.parent.name))
    return found
