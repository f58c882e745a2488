"""The store's clock against the one that all processes of the campaign share."""

from __future__ import annotations

from collections import defaultdict
from statistics import median_low

from holdfast.torture.checker.case import Case

SLACK = 1_000_000
"""How far a stamp may lie ahead: the two clocks are compared only to within the time of an answer."""
ENOUGH = 10
"""So many answers to a process tell how long they take at least."""


class StoreClock:
    """How far an instant of the store lies ahead of a moment of the shared clock.

    A write is stamped before its worker is told, so of each process the stamp that lies furthest ahead comes
    nearest to the truth; the offset is the one in the middle of those. What lies ahead even of that was
    stamped by some other clock than the store's.
    """

    def __init__(self, case: Case) -> None:
        self._offset = _offset(case)

    def ahead(self, instant: int, at: int) -> int:
        """By how much more than the slack the instant lies ahead; 0 if it does not, or nobody can tell."""
        return 0 if self._offset is None else max(0, instant - at - self._offset - SLACK)


def _offset(case: Case) -> int | None:
    seen: defaultdict[str, list[int]] = defaultdict(list)
    for job_id, verdicts in case.verdicts.items():
        job = case.jobs.get(job_id)
        finished = {} if job is None else {each.token: each.finished for each in job.attempts}
        for verdict in verdicts:
            if verdict.accepted and verdict.token in finished:
                seen[verdict.who].append(finished[verdict.token] - verdict.at)
    furthest = [max(offsets) for offsets in seen.values() if len(offsets) >= ENOUGH]
    return median_low(furthest) if furthest else None
