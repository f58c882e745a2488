"""What a worker has to tell the store, until a tick takes it along."""

from __future__ import annotations

from holdfast.engine.exchange import Report
from holdfast.engine.hold import Hold
from holdfast.model.records import Move


class Outbox:
    """Reports in the order in which they came.

    Two ticks may be under way at once, and the store may see either first. So what follows a start waits
    until that start is answered.
    """

    def __init__(self, batch: int) -> None:
        self._batch = batch
        self._reports: list[Report] = []
        self._starting: set[Hold] = set()

    def __len__(self) -> int:
        return len(self._reports)

    def __bool__(self) -> bool:
        """Whether there is something that may be told now."""
        return any(hold not in self._starting for hold, _ in self._reports)

    def put(self, hold: Hold, move: Move) -> None:
        self._reports.append((hold, move))

    def is_starting(self, hold: Hold) -> bool:
        """Whether the start of this attempt is being told."""
        return hold in self._starting

    def take(self) -> list[Report]:
        """What the next tick tells; `settle` is called when it is answered."""
        if self._starting:
            taken = [report for report in self._reports if report[0] not in self._starting][: self._batch]
            gone = set(map(id, taken))
            self._reports = [report for report in self._reports if id(report) not in gone]
        else:
            taken, self._reports = self._reports[: self._batch], self._reports[self._batch :]
        self._starting.update(hold for hold, move in taken if move.outcome is None)
        return taken

    def settle(self, reports: list[Report]) -> None:
        """The tick that took these is over."""
        if self._starting:
            self._starting.difference_update(hold for hold, _ in reports)
