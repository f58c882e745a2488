"""Runs cases: each side in a fresh process, sides in turn, a calibration before each."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ParamSpec, TypeVar

from benchmarks.calibration import Calibration, Disturbance, calibrate
from benchmarks.case import Case, Figures, Place, Side, Spread
from benchmarks.plan import Plan

P = ParamSpec("P")
T = TypeVar("T")
Say = Callable[[str], None]


@dataclass(slots=True)
class Outcome:
    """What a case gave: figures by side for each round, and how the machine was meanwhile."""

    case: Case
    rounds: list[dict[str, Figures]] = field(default_factory=list)
    calibrations: list[Calibration] = field(default_factory=list)
    others: list[float] = field(default_factory=list)
    """Cores that other processes used during each measurement."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Sides that were not measured, and what they lack."""

    def spread(self, side: str, figure: str) -> Spread:
        return Spread.of([each[side][figure] for each in self.rounds])


def run_case(case: Case, plan: Plan, folder: Path, say: Say, *, patience: float = 0) -> Outcome:
    """Measures every side once a round; each round begins with another side.

    Before each measurement it waits up to `patience` seconds for other processes to be calm.
    """
    outcome = Outcome(case)
    sides = _available(case, outcome)
    with TemporaryDirectory(dir=folder, prefix="bench-") as name:
        shared = Path(name)
        if case.prepare is not None:
            say(f"{case.name}: preparing")
            in_fresh_process(case.prepare, plan, shared)
        for number in range(plan.rounds):
            turn = number % len(sides)
            measured: dict[str, Figures] = {}
            for side in (*sides[turn:], *sides[:turn]):
                Disturbance.wait_for_calm(patience)
                measured[side.name] = _measure(side, plan, shared, outcome)
                shown = ", ".join(f"{value:,.4g} {unit}" for unit, value in measured[side.name].items())
                say(f"{case.name} {number + 1}/{plan.rounds}: {side.name}: {shown}")
            outcome.rounds.append(measured)
    return outcome


def in_fresh_process(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Calls the function in a new interpreter, so that no measurement inherits anything of another."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *args, **kwargs).result()


def _available(case: Case, outcome: Outcome) -> list[Side]:
    available: list[Side] = []
    for side in case.sides:
        if side.needs is None or find_spec(side.needs) is not None:
            available.append(side)
        else:
            outcome.left_out[side.name] = f"{side.needs} is not installed; `make bench` installs it"
    return available


def _measure(side: Side, plan: Plan, shared: Path, outcome: Outcome) -> Figures:
    with TemporaryDirectory(dir=shared) as name:
        fresh = Path(name)
        outcome.calibrations.append(calibrate(fresh))
        disturbance = Disturbance()
        figures = in_fresh_process(side.measure, plan, Place(fresh, shared))
        cores = disturbance.cores()
        if cores is not None:
            outcome.others.append(cores)
        return figures
