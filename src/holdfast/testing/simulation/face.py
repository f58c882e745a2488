"""Simulating an application: its own handlers, under many seeds."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.model.errors import BlockingCallOnLoop
from holdfast.model.timing import Seconds, seconds
from holdfast.testing.simulation.faults import Faults
from holdfast.testing.simulation.simulation import Check, Scenario, Simulation

if TYPE_CHECKING:
    from holdfast.app import Holdfast

DAY = 86_400.0
MOST_SHOWN = 8


class SimulationFailed(AssertionError):
    """A promise was broken, or a check of the application failed. `seed` shows it again."""

    def __init__(self, seed: int, found: list[str], lines: list[str]) -> None:
        self.seed = seed
        self.found = found
        told = "\n  ".join(found[:MOST_SHOWN])
        last = "\n  ".join(line[:200] for line in lines)
        super().__init__(f"seed {seed}; see it again with seeds=[{seed}]\n  {told}\nlast calls:\n  {last}")


@dataclass(slots=True)
class Summary:
    """What was simulated: how many seeds, for how many hours, and what happened in them, by kind."""

    seeds: int = 0
    hours: float = 0.0
    counts: Counter[str] = field(default_factory=Counter[str])


def simulate(
    app: Holdfast,
    scenario: Scenario,
    *,
    check: Check | None = None,
    before: Callable[[], object] | None = None,
    seeds: int | Iterable[int] = 100,
    workers: int = 2,
    faults: Faults | None = None,
    storm: Seconds | None = None,
    patience: Seconds = DAY,
) -> Summary:
    """Runs the application with simulated workers that crash, pause and lose touch, once for each seed.

    `scenario` enqueues what is to be done, on a client of its own that nothing befalls. Faults befall the
    workers for the time of the `storm`, by default five leases; then everything must get done within
    `patience`, and `check` is called, to assert what must hold of the application. `before` is called ahead
    of each seed, to begin anew with what handlers change outside of the store.

    Raises SimulationFailed for the first seed that shows a fault. Nothing else may use Holdfast in this
    process meanwhile.
    """
    _check_place()
    summary = Summary()
    for seed in range(seeds) if isinstance(seeds, int) else seeds:
        if before is not None:
            before()
        simulation = Simulation(
            app,
            seed,
            workers=workers,
            faults=Faults() if faults is None else faults,
            storm=None if storm is None else seconds(storm),
        )
        simulation.run(scenario, patience=seconds(patience), check=check)
        found = simulation.faults_found
        if found:
            raise SimulationFailed(seed, found, simulation.trace.lines())
        summary.seeds += 1
        summary.hours += simulation.universe.now / 3_600
        summary.counts.update(simulation.counts)
    return summary


def _check_place() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise BlockingCallOnLoop("simulate has event loops of its own; call it from a plain function")
