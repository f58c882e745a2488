"""Which queue a worker serves next: strategies that order its queues for each tick."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from holdfast.model.errors import ConfigurationError


class Strategy(Protocol):
    """Orders the queues of a worker, once for each tick.

    Jobs are taken from the first queue as far as they go, then from the next. A queue that is left out is not
    asked this time. `turn` counts the ticks; `random` draws a number in [0, 1).
    """

    def order(self, queues: tuple[str, ...], turn: int, random: Callable[[], float]) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class Rotating:
    """Begins each time with another queue, so that a busy one cannot starve those after it."""

    def order(self, queues: tuple[str, ...], turn: int, random: Callable[[], float]) -> tuple[str, ...]:
        first = turn % len(queues)
        return queues[first:] + queues[:first]


@dataclass(frozen=True, slots=True)
class Strict:
    """Serves a queue only when those before it have nothing due."""

    def order(self, queues: tuple[str, ...], turn: int, random: Callable[[], float]) -> tuple[str, ...]:
        return queues


@dataclass(frozen=True, slots=True)
class Weighted:
    """Begins with a queue drawn by weight, so that busy queues share the worker in that proportion.

    A queue without a weight has weight 1. Without any weights given, they are those that are stored as data:
    `app.limits.set(queue=..., weight=...)`.
    """

    weights: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        if not _is_mapping(self.weights or {}):
            raise ConfigurationError(f"{self.weights!r} does not map queues to weights", setting="strategy")
        for queue, weight in (self.weights or {}).items():
            if not _is_weight(weight):
                raise ConfigurationError(f"{weight!r} is not a number above 0", setting=f"strategy.{queue}")

    def order(self, queues: tuple[str, ...], turn: int, random: Callable[[], float]) -> tuple[str, ...]:
        # Exponential waiting times at rates in proportion to the weights: the shortest wait comes first.
        weights = self.weights or {}
        waits = {queue: -math.log(1 - random()) / weights.get(queue, 1.0) for queue in queues}
        return tuple(sorted(queues, key=waits.__getitem__))


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_weight(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value > 0
