"""Calling Spin: a model becomes a C program that visits every state."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from proofs.cases import Case

FOLDER = Path(__file__).parent
_DEEPEST = "-m1000000"
_STATES = re.compile(r"^\s*([\d.e+]+) states, stored", re.MULTILINE)
_ERRORS = re.compile(r"errors: (\d+)")
_TRUNCATED = re.compile(r"max search depth too small|out of memory|Search not completed", re.IGNORECASE)


class SpinFailed(Exception):
    """A search that says nothing: Spin or the compiler is missing or failed, or the search was cut short."""


class Found(NamedTuple):
    """What a search found: how many states there are, and the first counter-example, if any."""

    states: int
    violated: str | None


def search(case: Case) -> Found:
    """Visits every state of the model that can be reached, or goes on until a counter-example is found."""
    with tempfile.TemporaryDirectory(prefix="holdfast-proof-") as name:
        folder = Path(name)
        switches = [f"-D{switch}" for switch in case.switches]
        _call([_program("spin"), *switches, "-a", str(FOLDER / f"{case.model}.pml")], folder)
        kind = ["-DNFAIR=8"] if case.eventually else ["-DSAFETY", "-DNOCLAIM"]
        _call([_program("gcc"), "-w", "-O2", *kind, "-o", "pan", "pan.c"], folder)
        told = _call([str(folder / "pan"), _DEEPEST, *(["-a", "-f"] if case.eventually else [])], folder)
    return _read(told)


def _read(told: str) -> Found:
    states, errors = _STATES.search(told), _ERRORS.search(told)
    if states is None or errors is None:
        raise SpinFailed(f"the search did not end:\n{told[-2_000:]}")
    violated = next((line for line in told.splitlines() if line.startswith("pan:")), None)
    if errors[1] == "0":
        if _TRUNCATED.search(told):
            raise SpinFailed(f"the search was cut short:\n{told[-2_000:]}")
        violated = None
    return Found(int(float(states[1])), violated)


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise SpinFailed(f"there is no {name} on this machine; Debian has it: apt-get install {name}")
    return found


def _call(command: list[str], folder: Path) -> str:
    ended = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if ended.returncode:
        raise SpinFailed(f"{Path(command[0]).name} ended with {ended.returncode}:\n{ended.stdout[-2_000:]}")
    return ended.stdout
