"""A small file system of a campaign's own, which can be made full."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

SIZE: Final = 4 << 30
"""The most that it may take; a file system in memory takes what is in it."""
SPARE: Final = 64 << 10
TRIES: Final = 50
"""Whoever writes more than can be spared while it shrinks makes it too small, which the kernel refuses."""
_NAME: Final = "holdfast-torture-"
"""What a file system is called, before the id of the process that mounted it."""
_MOUNTS: Final = Path("/proc/self/mounts")


class Disk:
    """A folder; after `mount` a file system. Needs the right to mount one, which mostly root has."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.is_mounted = False
        folder.mkdir(parents=True, exist_ok=True)

    def mount(self) -> str | None:
        """Mounts it; or says why that cannot be."""
        if os.geteuid() != 0:
            return "mounting a small file system needs root"
        _remove_left()
        name = f"{_NAME}{os.getpid()}"
        error = _mount(["-t", "tmpfs", "-o", f"size={SIZE},mode=0755", name, str(self.folder)])
        self.is_mounted = error is None
        return None if error is None else f"no file system can be mounted: {error}"

    def unmount(self) -> None:
        if self.is_mounted:
            _unmount(self.folder)
            self.is_mounted = False

    def shrink(self) -> None:
        """Leaves no space: it becomes as large as what is in it."""
        error: str | None = None
        for _ in range(TRIES):
            usage = os.statvfs(self.folder)
            used = (usage.f_blocks - usage.f_bfree) * usage.f_frsize
            error = self._resize(used + SPARE)
            if error is None:
                return
        raise _unsized(error)

    def grow(self) -> None:
        error = self._resize(SIZE)
        if error is not None:
            raise _unsized(error)

    def _resize(self, size: int) -> str | None:
        return _mount(["-o", f"remount,size={size}", str(self.folder)])


def _unsized(error: str | None) -> OSError:
    return OSError(f"the file system cannot be resized: {error}")


def _mount(arguments: list[str]) -> str | None:
    """None, or what was wrong."""
    ended = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)  # noqa: S607  # nosec B607
    return None if ended.returncode == 0 else ended.stderr.strip()


def _unmount(folder: Path) -> None:
    subprocess.run(["umount", "--lazy", str(folder)], check=True)  # noqa: S607  # nosec B607


def _remove_left() -> None:
    """Removes the file systems of campaigns that were killed: nobody else would, and they take memory."""
    lines = _MOUNTS.read_text(encoding="utf-8").splitlines() if _MOUNTS.exists() else []
    for name, place, *_ in map(str.split, lines):
        owner = name.removeprefix(_NAME)
        if name.startswith(_NAME) and owner.isdigit() and not Path(f"/proc/{owner}").exists():
            # Another campaign that begins now may be faster.
            with suppress(OSError, subprocess.CalledProcessError):
                folder = Path(re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), place))
                _unmount(folder)
                folder.rmdir()
