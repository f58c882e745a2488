"""After the faults: everything ends in time, and nothing is left lying about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from holdfast.torture.checker.case import TERMINAL, Case
from holdfast.torture.checker.violation import Violation

LEASED = frozenset({"claimed", "running"})


def everything_settles_in_time(case: Case) -> Iterator[Violation]:
    """I12: once faults stop, every job ends within the stated time."""
    calm = () if case.calm is None else (case.calm,)
    bound = case.dump.limits.settle
    if case.dump.settled_after is None:
        left = Counter(job.state for job in case.dump.jobs if job.state not in TERMINAL)
        states = ", ".join(f"{count} {state}" for state, count in sorted(left.items())) or "none"
        yield Violation(f"the work did not settle within {bound} µs; left over: {states}", calm)
    elif case.dump.settled_after > bound:
        yield Violation(f"the work settled after {case.dump.settled_after} µs; {bound} are allowed", calm)
    for job in case.dump.jobs:
        if job.state not in TERMINAL:
            yield Violation(f"job {job.id} is still {job.state}", tuple(case.starts.get(job.id, ())))


def nothing_is_left_behind(case: Case) -> Iterator[Violation]:
    """I13: no lease, no lock, and no count remains that nobody accounts for."""
    for job in case.dump.jobs:
        if job.state in LEASED:
            yield Violation(f"job {job.id} is still leased to {job.worker} under token {job.token}")
    for lock in case.dump.locks:
        yield Violation(f"lock {lock.name} is still held under token {lock.token}")
    counted = Counter(job.state for job in case.dump.jobs)
    for state in sorted(counted.keys() | case.dump.stats.keys()):
        if counted[state] != case.dump.stats.get(state, 0):
            said = (
                f"the store counts {case.dump.stats.get(state, 0)} jobs as {state}; it has {counted[state]}"
            )
            yield Violation(said)
