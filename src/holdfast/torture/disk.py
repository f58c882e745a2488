"""A small file system of a campaign's own, which can be made full."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

SIZE: Final = 4 << 30
"""The most that it may take; a file system in memory takes what is in it."""
SPARE: Final = 64 << 10


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
        error = _mount(["-t", "tmpfs", "-o", f"size={SIZE},mode=0755", "holdfast-torture", str(self.folder)])
        self.is_mounted = error is None
        return None if error is None else f"no file system can be mounted: {error}"

    def unmount(self) -> None:
        if self.is_mounted:
            subprocess.run(["umount", "--lazy", str(self.folder)], check=True)  # noqa: S607
            self.is_mounted = False

    def shrink(self) -> None:
        """Leaves no space: it becomes as large as what is in it."""
        usage = os.statvfs(self.folder)
        used = (usage.f_blocks - usage.f_bfree) * usage.f_frsize
        self._resize(used + SPARE)

    def grow(self) -> None:
        self._resize(SIZE)

    def _resize(self, size: int) -> None:
        error = _mount(["-o", f"remount,size={size}", str(self.folder)])
        if error is not None:
            raise OSError(f"the file system cannot be resized: {error}")


def _mount(arguments: list[str]) -> str | None:
    """None, or what was wrong."""
    ended = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)  # noqa: S607
    return None if ended.returncode == 0 else ended.stderr.strip()
