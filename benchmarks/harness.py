"""Runs cases: each side in a fresh process, sides in turn, a calibration before each."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ParamSpec, TypeVar

from benchmarks.calibration import Calibration, Disturbance, calibrate
from benchmarks.case import Case, Figures, Missing, Place, Side, Spread
from benchmarks.engine import Server
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


def run_case(
    case: Case,
    plan: Plan,
    folder: Path,
    say: Say,
    *,
    patience: float = 0,
    server: Server | None = None,
    peers: bool = True,
) -> Outcome:
    """Measures every side once a round; each round begins with another side.

    Before each measurement it waits up to `patience` seconds for other processes to be calm. Without `peers`
    nothing is installed, and what needs that is left out.
    """
    outcome = Outcome(case)
    sides = _available(case, outcome, peers=peers)
    with TemporaryDirectory(dir=folder, prefix="bench-") as name, ExitStack() as stack:
        shared = Path(name)
        place = Place(shared, shared, server)
        if case.clean is not None:
            stack.callback(in_fresh_process, case.clean, place)
        if case.prepare is not None:
            say(f"{case.name}: preparing")
            in_fresh_process(case.prepare, plan, place)
        for number in range(plan.rounds):
            turn = number % len(sides)
            measured: dict[str, Figures] = {}
            for side in (*sides[turn:], *sides[:turn]):
                Disturbance.wait_for_calm(patience)
                measured[side.name] = _measure(side, plan, shared, outcome, server)
                shown = ", ".join(f"{value:,.4g} {unit}" for unit, value in measured[side.name].items())
                say(f"{case.name} {number + 1}/{plan.rounds}: {side.name}: {shown}")
            outcome.rounds.append(measured)
    return outcome


def in_fresh_process(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Calls the function in a new interpreter, so that no measurement inherits anything of another."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *args, **kwargs).result()


def _available(case: Case, outcome: Outcome, *, peers: bool) -> list[Side]:
    available: list[Side] = []
    for side in case.sides:
        reason = _lacks(side, peers=peers)
        if reason is None:
            available.append(side)
        else:
            outcome.left_out[side.name] = reason
    return available


def _lacks(side: Side, *, peers: bool) -> str | None:
    if side.needs is not None and find_spec(side.needs) is None:
        return f"{side.needs} is not installed; `make bench` installs it"
    if side.install is not None:
        if not peers:
            return "peers were not asked for"
        try:
            side.install()
        except Missing as missing:
            return str(missing)
    return None


def _measure(side: Side, plan: Plan, shared: Path, outcome: Outcome, server: Server | None) -> Figures:
    with TemporaryDirectory(dir=shared) as name:
        fresh = Path(name)
        outcome.calibrations.append(calibrate(fresh))
        disturbance = Disturbance(server)
        figures = in_fresh_process(side.measure, plan, Place(fresh, shared, server))
        cores = disturbance.cores()
        if cores is not None:
            outcome.others.append(cores)
        return figures
