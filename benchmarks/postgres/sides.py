"""The programs that are measured: how each is had, started, and asked what is unfinished."""

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.case import Missing

PROGRAMS = "benchmarks.postgres.programs"
ROOT = Path(__file__).resolve().parents[2]
FOLDER = "HOLDFAST_BENCH_PEERS"

PGQUEUER = ("pgqueuer[asyncpg]==1.6.*", "uvloop")
PROCRASTINATE = ("procrastinate==3.10.*", "psycopg[binary]", "uvloop")
GRAPHILE = "graphile-worker@0.17.3"  # the last that runs on Node 20


@dataclass(frozen=True, slots=True)
class Program:
    """How to start a side. `unfinished` tells whether its database still has a job to do."""

    command: Callable[[], list[str]]
    unfinished: str
    environ: tuple[tuple[str, str], ...] = ()
    install: Callable[[], None] | None = None

    def line(self, verb: str, url: str, *numbers: int) -> list[str]:
        return [*self.command(), verb, url, *map(str, numbers)]

    def variables(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        given = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PEER_FOLDER": str(peers() / "graphile")}
        return kept | given | dict(self.environ)


def peers() -> Path:
    """Where peers are installed, each apart because what they need conflicts; never in the repository."""
    if named := os.environ.get(FOLDER):
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "holdfast" / "peers"


def _ours(name: str) -> list[str]:
    return [sys.executable, "-m", f"{PROGRAMS}.{name}_program"]


def _peer(name: str) -> list[str]:
    return [str(peers() / name / "bin" / "python"), "-m", f"{PROGRAMS}.{name}_program"]


def _install_python(name: str, packages: tuple[str, ...]) -> None:
    folder = peers() / name
    wanted = " ".join(packages)
    mark = folder / "installed"
    if mark.exists() and mark.read_text() == wanted:
        return
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    _run([*pip, *packages], folder)
    mark.write_text(wanted)


def _install_graphile() -> None:
    folder = peers() / "graphile"
    mark = folder / "installed"
    if mark.exists() and mark.read_text() == GRAPHILE:
        return
    if not (shutil.which("node") and shutil.which("npm")):
        raise Missing("needs Node 20 with npm")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text('{"private": true}\n')
    _run(["npm", "install", "--no-fund", "--no-audit", "--silent", GRAPHILE], folder)
    mark.write_text(GRAPHILE)


def _run(command: list[str], folder: Path) -> None:
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if ended.returncode:
        told = (ended.stderr or ended.stdout).strip().splitlines() or ["no message"]
        raise Missing(f"cannot be installed: {told[-1]}")


def _graphile_command() -> list[str]:
    return ["node", str(Path(__file__).with_name("programs") / "graphile_program.cjs")]


HOLDFAST = Program(partial(_ours, "holdfast"), "SELECT EXISTS (SELECT FROM holdfast.job)")
BARE = Program(partial(_ours, "bare"), "SELECT EXISTS (SELECT FROM job)")
COPY = Program(partial(_ours, "copy"), HOLDFAST.unfinished)
PGQUEUER_BATCH = Program(
    partial(_peer, "pgqueuer"),
    "SELECT EXISTS (SELECT FROM pgqueuer WHERE status IN ('queued', 'picked'))",
    install=partial(_install_python, "pgqueuer", PGQUEUER),
)
PROCRASTINATE_POOL = Program(
    partial(_peer, "procrastinate"),
    "SELECT EXISTS (SELECT FROM procrastinate_jobs WHERE status IN ('todo', 'doing'))",
    install=partial(_install_python, "procrastinate", PROCRASTINATE),
)
GRAPHILE_PLAIN = Program(
    _graphile_command, "SELECT EXISTS (SELECT FROM graphile_worker.jobs)", install=_install_graphile
)
GRAPHILE_BATCH = Program(
    _graphile_command,
    GRAPHILE_PLAIN.unfinished,
    environ=(("PEER_BATCH", "1"),),
    install=_install_graphile,
)
