"""Promtool, which reads rules as Prometheus does: this machine's or Debian's, unpacked into a folder."""

import shutil
from pathlib import Path

from tests.servers.cache import cached
from tests.servers.debian import unpack


def find_promtool() -> Path:
    local = shutil.which("promtool")
    if local is not None:
        return Path(local)
    return cached("promtool", lambda folder: unpack("prometheus", folder)) / "usr" / "bin" / "promtool"
