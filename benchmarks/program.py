"""A side that is a program of its own: how it is had and started. Peers have their own interpreter."""

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

ROOT = Path(__file__).resolve().parents[1]
FOLDER = "HOLDFAST_BENCH_PEERS"
TOLD_EACH = 1_000


@dataclass(frozen=True, slots=True)
class Program:
    """How to start a side. `unfinished` asks its store whether a job is left: SQL, or a script of Redis.

    It tells of every `told_each`th job, in each of the `bodies` processes that a worker runs jobs in.
    """

    command: Callable[[], list[str]]
    unfinished: str
    environ: tuple[tuple[str, str], ...] = ()
    install: Callable[[], None] | None = None
    told_each: int = TOLD_EACH
    bodies: int = 1

    def line(self, verb: str, url: str, *numbers: int) -> list[str]:
        return [*self.command(), verb, url, *map(str, numbers)]

    def variables(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        given = {
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
            "PEER_FOLDER": str(peers()),
            "PEER_TOLD_EACH": str(self.told_each),
        }
        return kept | given | dict(self.environ)


def ours(module: str) -> Callable[[], list[str]]:
    """The command of a program that runs with our own packages."""
    return partial(_python, sys.executable, module)


def peer(name: str, module: str) -> Callable[[], list[str]]:
    """The command of a program that runs with a peer's own packages."""
    return partial(_of_peer, name, module)


def node(program: Path) -> Callable[[], list[str]]:
    return partial(list, ["node", str(program)])


def peers() -> Path:
    """Where peers are installed, each apart because what they need conflicts; never in the repository."""
    if named := os.environ.get(FOLDER):
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "holdfast" / "peers"


def install_python(name: str, *packages: str) -> None:
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


def install_node(name: str, *packages: str) -> None:
    folder = peers() / name
    wanted = " ".join(packages)
    mark = folder / "installed"
    if mark.exists() and mark.read_text() == wanted:
        return
    if not (shutil.which("node") and shutil.which("npm")):
        raise Missing("needs Node 20 with npm")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text('{"private": true}\n')
    _run(["npm", "install", "--no-fund", "--no-audit", "--silent", *packages], folder)
    mark.write_text(wanted)


def _of_peer(name: str, module: str) -> list[str]:
    return _python(str(peers() / name / "bin" / "python"), module)


def _python(interpreter: str, module: str) -> list[str]:
    return [interpreter, "-m", module]


def _run(command: list[str], folder: Path) -> None:
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if ended.returncode:
        told = (ended.stderr or ended.stdout).strip().splitlines() or ["no message"]
        raise Missing(f"cannot be installed: {told[-1]}")
