"""A case: what is compared with what, and what should come out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.engine import Server
from benchmarks.plan import Plan

Figures = dict[str, float]
Round = Mapping[str, Figures]

RATE = "jobs/s"
CPU = "CPU µs/job"
SERVER_CPU = "server CPU µs/job"
WALL = "wall µs/job"
STORE = "of it in the store"
P50 = "p50 ms"
P99 = "p99 ms"
LOAD = "% of a core"


class Missing(Exception):
    """A side cannot be measured here; the message says what it lacks."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a measurement keeps its data: `fresh` is its own folder, `shared` belongs to all of the case."""

    fresh: Path
    shared: Path
    given: Server | None = None

    @property
    def server(self) -> Server:
        """The server of a case that needs one."""
        assert self.given is not None, "this case was given no server"
        return self.given


@dataclass(frozen=True, slots=True)
class Side:
    """One of the things compared. `measure` runs in a fresh process.

    `needs` is a package that it uses; `install` fetches what else it needs, unless that is there, or raises
    Missing.
    """

    name: str
    measure: Callable[[Plan, Place], Figures]
    needs: str | None = None
    install: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over the rounds."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        return cls(median(values), min(values), max(values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a side's figure should be: by itself, or as a multiple of the best of others in the same round."""

    text: str
    side: str
    figure: str
    over: tuple[str, ...] = ()
    at_least: float = 0
    at_most: float = float("inf")

    def spread(self, rounds: Sequence[Round]) -> Spread | None:
        """The value over the rounds; None if something that it needs was not measured."""
        if any(name not in each for each in rounds for name in (self.side, *self.over)):
            return None
        return Spread.of([self._value(each) for each in rounds])

    def is_reached(self, spread: Spread) -> bool:
        return self.at_least <= spread.median <= self.at_most

    def _value(self, measured: Round) -> float:
        value = measured[self.side][self.figure]
        if not self.over:
            return value
        best = max if self.at_least else min
        return value / best(measured[name][self.figure] for name in self.over)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Sides that are measured in turn, round by round.

    `prepare` makes what they share, once, and `clean` removes what of that is not in the shared folder. A
    case that is not `usual` runs only when it is named, or its suite.
    """

    name: str
    title: str
    sides: tuple[Side, ...]
    goals: tuple[Goal, ...] = ()
    prepare: Callable[[Plan, Place], None] | None = None
    clean: Callable[[Place], None] | None = None
    usual: bool = True
    suite: str | None = None
