"""What a worker counts of its jobs, by queue, since it started.

The worker's loop counts, and the heartbeat's thread reads: whole numbers that only grow, so that nobody waits
for anybody.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from holdfast.model.lifecycle import Ending
from holdfast.model.records import JobRecord
from holdfast.model.report import BOUNDS, MOST_QUEUES, OTHER, Lateness, QueueReport
from holdfast.model.timing import SECOND

_BOUNDS = tuple(round(bound * SECOND) for bound in BOUNDS)


class _Line:
    __slots__ = ("claimed", "ended", "late", "lateness")

    def __init__(self) -> None:
        self.claimed = 0
        self.late = 0
        self.lateness = [0] * (len(_BOUNDS) + 1)
        self.ended: dict[Ending, int] = dict.fromkeys(Ending, 0)

    def report(self) -> QueueReport:
        return QueueReport(
            claimed=self.claimed,
            success=self.ended[Ending.SUCCESS],
            retried=self.ended[Ending.RETRY],
            failed=self.ended[Ending.FAILED],
            lateness=Lateness(counts=tuple(self.lateness), sum=self.late / SECOND),
        )


class Account:
    """The counts of one worker, from its start to its end."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}

    def claimed(self, records: Sequence[JobRecord]) -> None:
        lines = self._lines
        for record in records:
            line = lines.get(record.queue) or self._line(record.queue)
            line.claimed += 1
            # A token is the store's clock at the claim, and at most a little more.
            late = record.token - record.due
            if late > 0:
                line.late += late
            line.lateness[bisect_left(_BOUNDS, late)] += 1

    def ended(self, queue: str, ending: Ending) -> None:
        (self._lines.get(queue) or self._line(queue)).ended[ending] += 1

    def reports(self) -> dict[str, QueueReport]:
        """What is counted by now. From any thread."""
        return {queue: line.report() for queue, line in list(self._lines.items())}

    def _line(self, queue: str) -> _Line:
        """The line of a queue that has none yet; that of all others once there are too many."""
        lines = self._lines
        if len(lines) >= MOST_QUEUES:
            queue = OTHER
        return lines.setdefault(queue, _Line())
