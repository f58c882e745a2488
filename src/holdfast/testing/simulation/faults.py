"""What befalls simulated processes, chosen by the seed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.testing.simulation.process import SimulatedProcess
    from holdfast.testing.simulation.simulation import Simulation


@dataclass(frozen=True, kw_only=True)
class Faults:
    """Which faults there are at all. Each seed takes some of these, some often and some seldom.

    crashes: a worker dies at once, and another comes in its place. stops: one is told to end, as by a deploy.
    pauses: one stands still, for up to three leases. stalls: its event loop is blocked, and its heartbeat is
    not. cuts: one does not reach the store. outages: nobody does. clocks: wall clocks are wrong by up to an
    hour, and jump; others go a little too fast or too slow. calls: single calls to the store are slow, fail,
    or are answered by nobody, though they may have been carried out.
    """

    crashes: bool = True
    stops: bool = True
    pauses: bool = True
    stalls: bool = True
    cuts: bool = True
    outages: bool = True
    clocks: bool = True
    calls: bool = True

    def drawn(self, chance: Random) -> list[str]:
        """Those of one seed, each as often as it shall weigh."""
        kinds = [each.name for each in fields(self) if getattr(self, each.name) and each.name != "calls"]
        return [kind for kind in kinds for _ in range(chance.choice((0, 1, 3)))]


NO_FAULTS = Faults(**{each.name: False for each in fields(Faults)})


class Misfortune:
    """Does it. `counts` says how often each fault befell."""

    def __init__(self, simulation: Simulation, faults: Faults, lease: float) -> None:
        self._simulation = simulation
        self._universe = simulation.universe
        self._lease = lease
        self._kinds = faults.drawn(simulation.universe.chance)
        self._pace = lease * simulation.universe.chance.choice((0.1, 0.5, 2.0))
        self.counts: dict[str, int] = {}
        self.is_over = not self._kinds

    def begin(self) -> None:
        if not self.is_over:
            self._universe.after(self._universe.chance.expovariate(1 / self._pace), self._befall)

    def _befall(self) -> None:
        if self.is_over:
            return
        kind = self._universe.chance.choice(self._kinds)
        victims = [each for each in self._simulation.workers if not each.is_dead]
        if victims:
            victim = self._universe.chance.choice(victims)
            self.counts[kind] = self.counts.get(kind, 0) + 1
            self._simulation.trace.note(victim.name, kind)
            getattr(self, f"_{kind}")(victim)
        self.begin()

    def _crashes(self, victim: SimulatedProcess) -> None:
        """At once, at one of its next steps, or at one of its next calls to the store."""
        chance = self._universe.chance
        match chance.randrange(3):
            case 0:
                victim.kill()
            case 1:
                victim.steps_left = int(2 ** (chance.random() * 12))
            case _:
                victim.calls_left = int(2 ** (chance.random() * 6))

    def _stops(self, victim: SimulatedProcess) -> None:
        self._simulation.stop(victim, self._universe.chance.choice((0.0, self._lease / 4, None)))

    def _pauses(self, victim: SimulatedProcess) -> None:
        """At once, or with one of its next calls in its hands."""
        if self._universe.chance.random() < 0.5:
            victim.pause(self._length())
        else:
            victim.pauses_at = int(2 ** (self._universe.chance.random() * 5)), self._length()

    def _stalls(self, victim: SimulatedProcess) -> None:
        victim.main.stall(self._length())

    def _cuts(self, victim: SimulatedProcess) -> None:
        self._simulation.weather.away[victim] = self._universe.now + self._length()

    def _outages(self, victim: SimulatedProcess) -> None:
        self._simulation.weather.away[None] = self._universe.now + self._length()

    def _clocks(self, victim: SimulatedProcess) -> None:
        victim.wrong = self._universe.chance.uniform(-3_600, 3_600)

    def _length(self) -> float:
        """Up to three leases, and as often much shorter."""
        chance = self._universe.chance
        return self._lease * 3 * chance.random() ** chance.choice((1, 4))
