"""Take-overs: a holder dies or freezes, and the job begins again elsewhere."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

from holdfast.torture.checker.case import Case

TAKEN = frozenset({"lost", "superseded"})
ENDING = frozenset({"kill", "freeze", "freeze leader", "ended unasked"})


@dataclass(frozen=True, slots=True)
class Takeover:
    """A job went from one process to another: `died` is when its holder was killed or frozen."""

    job: str
    before: str
    after: str
    died: int
    begun: int

    @property
    def lasted(self) -> int:
        return self.begun - self.died


def find_takeovers(case: Case) -> list[Takeover]:
    """Those whose beginning is known: the holder was killed or frozen while it ran the job."""
    deaths: defaultdict[str, list[int]] = defaultdict(list)
    for fault in case.faults:
        if fault.name in ENDING and fault.phase != "end":
            deaths[fault.target].append(fault.at)
    found: list[Takeover] = []
    for job in case.dump.jobs:
        lost = {attempt.token for attempt in job.attempts if attempt.outcome in TAKEN}
        if not lost:
            continue
        starts = sorted(case.starts.get(job.id, ()), key=lambda start: start.token)
        for before, after in pairwise(starts):
            times = deaths.get(before.who)
            if before.token not in lost or not times:
                continue
            place = bisect_left(times, before.at)
            if place < len(times) and times[place] < after.at:
                found.append(Takeover(job.id, before.who, after.who, times[place], after.at))
    return found
