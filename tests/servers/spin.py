"""Spin, the model checker: this machine's, or Debian's package unpacked into a folder."""

import shutil
from pathlib import Path

from tests.servers.cache import cached
from tests.servers.debian import unpack


def find_spin() -> Path:
    """The program. It needs a C compiler beside it."""
    local = shutil.which("spin")
    if local is not None:
        return Path(local)
    return cached("spin", lambda folder: unpack("spin", folder)) / "usr" / "bin" / "spin"
