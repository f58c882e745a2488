"""Programs that were fetched for tests, kept beside the virtual environment, never in it."""

import fcntl
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path


class Missing(Exception):
    """A server cannot be had here; the message says what to install."""


def cached(name: str, fetch: Callable[[Path], None]) -> Path:
    """The folder of that name, filled by `fetch` if it is not there yet; never seen half filled."""
    place = _place()
    place.mkdir(parents=True, exist_ok=True)
    wanted = place / name
    with (place / f"{name}.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not wanted.exists():
            coming = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=place))
            try:
                coming.chmod(0o755)
                fetch(coming)
                coming.rename(wanted)
            finally:
                shutil.rmtree(coming, ignore_errors=True)
    return wanted


def _place() -> Path:
    is_virtual = sys.prefix != sys.base_prefix
    return Path(sys.prefix) / "servers" if is_virtual else Path.home() / ".cache" / "holdfast" / "servers"
