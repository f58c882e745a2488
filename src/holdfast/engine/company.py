"""The suspects that run in a process, and whether one more may run beside them."""

from __future__ import annotations

from typing import Final

from holdfast.engine.hold import Hold
from holdfast.model import outcome as follow


class Company:
    """Suspects side by side: the more losses they have behind them, the fewer."""

    def __init__(self, lost_limit: int) -> None:
        self._lost_limit: Final = lost_limit
        self._running: dict[Hold, int] = {}

    def __bool__(self) -> bool:
        return bool(self._running)

    def admits(self, hold: Hold) -> bool:
        """Whether it may run now. Whatever is no suspect may."""
        if not hold.record.suspect:
            return True
        lost = hold.record.lost
        beside = sum(other >= lost for other in self._running.values())
        return beside < follow.most_suspects(lost, self._lost_limit)

    def join(self, hold: Hold) -> None:
        self._running[hold] = hold.record.lost

    def leave(self, hold: Hold) -> None:
        self._running.pop(hold, None)
