"""Counters, gauges and histograms: what they are called, what they count, and how much by now.

They know neither Prometheus nor jobs. None of them is safe to use from two threads at once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from holdfast.model.report import BOUNDS, OTHER

Kind = Literal["counter", "gauge", "histogram"]
Labels = tuple[str, ...]

MOST_SERIES = 500
"""So many sets of labels does one instrument tell apart."""


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    """What an instrument is called and means; `labels` are the names of what tells its series apart."""

    name: str
    kind: Kind
    help: str
    labels: Labels = ()


@dataclass(frozen=True, slots=True)
class Distribution:
    """How many values fell at or below each bound and above the one before, the last above all; their sum."""

    counts: tuple[int, ...]
    sum: float

    @property
    def count(self) -> int:
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class Family:
    """What one instrument says now, by the values of its labels."""

    definition: Definition
    points: Mapping[Labels, float | Distribution]


class Numbers:
    """A counter or a gauge. A counter without labels is there from the beginning, so that 0 can be seen."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self._values: dict[Labels, float] = {}
        if definition.kind == "counter" and not definition.labels:
            self._values[()] = 0

    def add(self, labels: Labels = (), by: float = 1) -> None:
        values = self._values
        if labels not in values:
            labels = within_limit(labels, len(values))
        values[labels] = values.get(labels, 0) + by

    def set(self, value: float, labels: Labels = ()) -> None:
        """Says it of this series, unless that is one too many: the rest has no value in common."""
        if labels in self._values or len(self._values) < MOST_SERIES:
            self._values[labels] = value

    def replace(self, points: Iterable[tuple[Labels, float]]) -> None:
        """Forgets what was said before."""
        self._values = {}
        for labels, value in points:
            self.add(labels, value)

    def forget(self, labels: Labels) -> None:
        self._values.pop(labels, None)

    def family(self) -> Family:
        return Family(self.definition, dict(self._values))


class Histogram:
    """How values are spread over the BOUNDS."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self._series: dict[Labels, _Spread] = {} if definition.labels else {(): _Spread()}

    def observe(self, value: float, labels: Labels = ()) -> None:
        spread = self._series.get(labels)
        if spread is None:
            spread = self._series.setdefault(within_limit(labels, len(self._series)), _Spread())
        spread.counts[bisect_left(BOUNDS, value)] += 1
        spread.sum += value

    def family(self) -> Family:
        points = {labels: Distribution(tuple(each.counts), each.sum) for labels, each in self._series.items()}
        return Family(self.definition, points)


class _Spread:
    __slots__ = ("counts", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.sum = 0.0


def within_limit(labels: Labels, known: int) -> Labels:
    """The labels of a new series; those of all the rest once there are too many."""
    return labels if known < MOST_SERIES else (OTHER,) * len(labels)
