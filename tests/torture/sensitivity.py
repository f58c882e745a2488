"""`python -m tests.torture.sensitivity [--store URL]` runs campaigns with each mutant: all must be caught.

A mutant that one campaign does not notice gets another, with the next seed, up to `--tries`. As many
campaigns without any mutant must break nothing. Prints a line for each as it comes: what noticed it, with
which seed, and how long that took in all. Exit code 1 if one was missed, or something was broken without one.
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
from tests.torture.mutants.catalogue import MUTANTS, NONE, Mutant

ROOT = Path(__file__).parents[2]
MUTANT = "TORTURE_MUTANT"
KINDS = {"sqlite": "sqlite", "postgresql": "postgresql", "postgres": "postgresql", "redis": "redis"}


@dataclass(frozen=True)
class Trial:
    """A campaign with one mutant: which invariants were broken how often, and the first violation."""

    mutant: Mutant
    seed: int
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
    return Trial(mutant, seed, broken, sentence, time.monotonic() - began)


def path_of_mutants() -> str:
    """Where Python finds `sitecustomize`, and that what it needs."""
    return os.pathsep.join(map(str, [ROOT / "tests" / "torture" / "mutants", ROOT, ROOT / "src"]))


def run_campaign(mutant: Mutant, store: str, out: Path, *, jobs: int, seconds: int, seed: int) -> None:
    """Has its folder filled; raises with what it printed if that has no dump in the end."""
    environ = {
        **os.environ,
        "PYTHONPATH": path_of_mutants(),
        MUTANT: "" if mutant is NONE else mutant.name,
    }
    options = ["--store", store, "--jobs", str(jobs), "--seconds", str(seconds), "--seed", str(seed)]
    command = [sys.executable, "-m", "tests.torture.brief", mutant.crew, *options, "--out", str(out)]
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if not (out / NAME).exists():
        raise RuntimeError(f"the campaign of {mutant.name} came to no end:\n{ran.stdout}\n{ran.stderr}")


def mutants_of(store: str, names: list[str]) -> Iterator[Mutant]:
    kind = KINDS[store.partition(":")[0]]
    return (each for each in MUTANTS.values() if kind in each.stores and (not names or each.name in names))


def trials(mutant: Mutant, store: str, out: Path, given: argparse.Namespace) -> Iterator[Trial]:
    """Campaigns with seeds that follow each other."""
    for seed in range(given.seed, given.seed + given.tries):
        folder = out / f"{mutant.name}-{seed}"
        folder.mkdir(parents=True)
        yield try_out(mutant, store, folder, jobs=given.jobs, seconds=given.seconds, seed=seed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", default="sqlite:")
    parser.add_argument("--mutant", action="append", default=[], choices=MUTANTS)
    parser.add_argument("--jobs", type=int, default=1500)
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tries", type=int, default=5)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    wanted = list(mutants_of(given.store, given.mutant))
    caught, false_alarms = 0, 0
    with tempfile.TemporaryDirectory(prefix="holdfast-mutants-") as made:
        out = given.out or Path(made)
        for mutant in wanted:
            caught += _hunt(mutant, given.store, out, given)
        for trial in trials(NONE, given.store, out, given):
            false_alarms += bool(trial.broken)
            _say(f"{NONE.name:<18} {', '.join(trial.broken) or 'nothing broken':<24} seed {trial.seed}")
    _say(f"{caught} of {len(wanted)} mutants caught; without one {false_alarms} of {given.tries} failed")
    return int(caught < len(wanted) or false_alarms > 0)


def _hunt(mutant: Mutant, store: str, out: Path, given: argparse.Namespace) -> bool:
    seconds = 0.0
    for trial in trials(mutant, store, out, given):
        seconds += trial.seconds
        if trial.noticed_by:
            break
    _say(tell(trial, seconds))
    return bool(trial.noticed_by)


def tell(trial: Trial, seconds: float) -> str:
    caught = ", ".join(f"{name} ({trial.broken[name]})" for name in trial.noticed_by) or "MISSED"
    others = ", ".join(name for name in trial.broken if name not in trial.noticed_by)
    also = f" [also {others}]" if others else ""
    return f"{trial.mutant.name:<18} {caught:<24} seed {trial.seed} {seconds:5.0f} s  {trial.sentence}{also}"


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
