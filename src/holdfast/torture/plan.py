"""Which fault comes when: drawn from the seed, each kind by itself, so that kinds overlap."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

GAPS: Final = {
    "kill": 8.0,
    "freeze": 8.0,
    "terminate": 15.0,
    "freeze leader": 15.0,
    "black hole": 10.0,
    "one way": 12.0,
    "reset": 10.0,
    "delay": 12.0,
    "cut backends": 10.0,
    "crash store": 60.0,
    "clock jump": 8.0,
    "full disk": 60.0,
}
"""Seconds between two faults of a kind, on average."""

FIRST_PART: Final = 0.4
"""By then, as a part of the whole, each kind has happened once."""


@dataclass(frozen=True, slots=True, order=True)
class Strike:
    """A fault to come. `draw` is what the rest of it, such as whom it strikes, is drawn from."""

    at: float
    name: str
    draw: float

    @property
    def random(self) -> random.Random:
        return random.Random(self.draw)


def strikes(seed: int, expected: float, names: Sequence[str]) -> Iterator[Strike]:
    """Endless, in their order; seconds count from the beginning of the campaign."""
    return heapq.merge(*(_of_kind(seed, expected, name) for name in names))


def _of_kind(seed: int, expected: float, name: str) -> Iterator[Strike]:
    draw = random.Random(f"{seed} {name}")
    gap = GAPS[name]
    at = draw.uniform(0, min(gap, FIRST_PART * expected))
    while True:
        yield Strike(at, name, draw.random())
        at += draw.expovariate(1 / gap)
