"""Which build of Holdfast it is that a campaign is about."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


def commit() -> str:
    """The commit of the clone that this is part of, with a mark if it was changed since; else nothing."""
    if _told_by_git("ls-files", "--error-unmatch", Path(__file__).name):
        return _told_by_git("describe", "--always", "--dirty", "--exclude=*", "--abbrev=10")
    return ""


def _told_by_git(*words: str) -> str:
    git = shutil.which("git")
    if git is None:
        return ""
    command = [git, "-C", str(Path(__file__).parent), *words]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    return told.stdout.strip() if told.returncode == 0 else ""
