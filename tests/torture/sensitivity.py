"""`python -m tests.torture.sensitivity [--store URL]` runs a campaign with each mutant: all must be caught.

Prints a line for each as it comes: the mutant, what noticed it, and how long that took. Exit code 1 if one
was missed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast.torture.checker.case import read_case
from holdfast.torture.checker.judging import judge
from holdfast.torture.dump import NAME
from tests.torture.mutants.catalogue import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]
MUTANT = "TORTURE_MUTANT"
KINDS = {"sqlite": "sqlite", "postgresql": "postgresql", "postgres": "postgresql", "redis": "redis"}


@dataclass(frozen=True)
class Trial:
    """A campaign with one mutant: which invariants were broken how often, and the first violation."""

    mutant: Mutant
    broken: dict[str, int]
    sentence: str
    seconds: float

    @property
    def noticed_by(self) -> list[str]:
        return [name for name in self.mutant.noticed_by if name in self.broken]


def try_out(mutant: Mutant, store: str, out: Path, *, jobs: int, seconds: int, seed: int) -> Trial:
    began = time.monotonic()
    run_campaign(mutant, store, out, jobs=jobs, seconds=seconds, seed=seed)
    judgement = judge(read_case(out))
    broken = {ruling.name: ruling.violations for ruling in judgement.rulings if ruling.violations}
    first = next(
        (each for each in judgement.rulings if each.name in mutant.noticed_by and each.findings), None
    )
    sentence = first.findings[0].sentence if first else ""
    return Trial(mutant, broken, sentence, time.monotonic() - began)


def path_of_mutants() -> str:
    """Where Python finds `sitecustomize`, and that what it needs."""
    return os.pathsep.join([str(ROOT / "tests" / "torture" / "mutants"), str(ROOT)])


def run_campaign(mutant: Mutant, store: str, out: Path, *, jobs: int, seconds: int, seed: int) -> None:
    """Has its folder filled; raises with what it printed if that has no dump in the end."""
    environ = {
        **os.environ,
        "PYTHONPATH": path_of_mutants(),
        MUTANT: mutant.name,
    }
    options = ["--store", store, "--jobs", str(jobs), "--seconds", str(seconds), "--seed", str(seed)]
    command = [sys.executable, "-m", "tests.torture.brief", mutant.crew, *options, "--out", str(out)]
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if not (out / NAME).exists():
        raise RuntimeError(f"the campaign of {mutant.name} came to no end:\n{ran.stdout}\n{ran.stderr}")


def mutants_of(store: str, names: list[str]) -> Iterator[Mutant]:
    kind = KINDS[store.partition(":")[0]]
    return (each for each in MUTANTS.values() if kind in each.stores and (not names or each.name in names))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", default="sqlite:")
    parser.add_argument("--mutant", action="append", default=[], choices=MUTANTS)
    parser.add_argument("--jobs", type=int, default=1500)
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    missed = 0
    with tempfile.TemporaryDirectory(prefix="holdfast-mutants-") as made:
        for mutant in mutants_of(given.store, given.mutant):
            out = (given.out or Path(made)) / mutant.name
            out.mkdir(parents=True)
            trial = try_out(mutant, given.store, out, jobs=given.jobs, seconds=given.seconds, seed=given.seed)
            missed += not trial.noticed_by
            sys.stdout.write(tell(trial) + "\n")
            sys.stdout.flush()
    return min(missed, 1)


def tell(trial: Trial) -> str:
    caught = ", ".join(f"{name} ({trial.broken[name]})" for name in trial.noticed_by) or "MISSED"
    others = ", ".join(name for name in trial.broken if name not in trial.noticed_by)
    also = f" [also {others}]" if others else ""
    return f"{trial.mutant.name:<18} {caught:<24} {trial.seconds:5.0f} s  {trial.sentence}{also}"


if __name__ == "__main__":
    sys.exit(main())
