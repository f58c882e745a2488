"""How the way between processes and their store behaves at the moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.testing.simulation.process import SimulatedProcess


@dataclass(slots=True)
class Weather:
    """The chances of what may become of a call; what is left of 1 is a call that is answered at once.

    `latency` is how many seconds a call takes, at most, that is not answered at once, `slowness` one that is
    slow. After `silence` a caller is told that nobody will answer. `away` are the processes that do not reach
    the store, and until when.
    """

    latency: float = 0.05
    slowness: float = 10.0
    silence: float = 60.0
    is_answered_later: float = 0.3
    is_slow: float = 0.0
    is_unsent: float = 0.0
    is_unanswered: float = 0.0
    is_silent: float = 0.0
    wakeup_is_lost: float = 0.0
    away: dict[SimulatedProcess | None, float] = field(default_factory=dict["SimulatedProcess | None", float])

    @classmethod
    def drawn(cls, chance: Random, slowness: float, silence: float) -> Weather:
        """A climate of its own for each seed: some have much of one thing, and nothing of another."""

        def share(most: float) -> float:
            return chance.choice((0.0, 0.1, 1.0)) * most * chance.random()

        return cls(
            latency=chance.choice((0.001, 0.02, 0.2)),
            slowness=slowness,
            silence=silence,
            is_answered_later=chance.uniform(0.1, 0.6),
            is_slow=share(0.05),
            is_unsent=share(0.1),
            is_unanswered=share(0.1),
            is_silent=share(0.05),
            wakeup_is_lost=chance.choice((0.0, 0.1, 0.9)),
        )

    def clear_up(self) -> None:
        """Nothing goes wrong any more."""
        self.is_slow = self.is_unsent = self.is_unanswered = self.is_silent = self.wakeup_is_lost = 0.0
        self.away.clear()

    def is_away(self, process: SimulatedProcess, now: float) -> bool:
        """Whether the process is cut off, or all are."""
        away = self.away
        return bool(away) and max(away.get(process, 0.0), away.get(None, 0.0)) > now
