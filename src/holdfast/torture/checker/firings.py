"""Schedules: one job for each due time, and none left out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from holdfast.torture.checker.case import Case
from holdfast.torture.checker.violation import Violation
from holdfast.torture.dump import Job, Schedule


def one_job_per_due_time(case: Case) -> Iterator[Violation]:
    """I10: a schedule makes one job for each of its due times, and for no other."""
    made: defaultdict[str, defaultdict[int, list[Job]]] = defaultdict(lambda: defaultdict(list))
    for job in case.dump.jobs:
        if job.firing is not None:
            made[job.firing.schedule][job.firing.due].append(job)
    for name, dues in made.items():
        for due, jobs in dues.items():
            if len(jobs) > 1:
                ids = ", ".join(job.id for job in jobs)
                yield Violation(f"schedule {name} fired {len(jobs)} times for {due}: jobs {ids}")
    for schedule in case.dump.schedules:
        yield from _off_its_times(schedule, set(made.get(schedule.name, ())))


def _off_its_times(schedule: Schedule, made: set[int]) -> Iterator[Violation]:
    for due in sorted(made):
        if due < schedule.first or (due - schedule.first) % schedule.interval:
            yield Violation(f"schedule {schedule.name} fired for {due}, which is none of its due times")
    if schedule.last is None:
        return
    wanted = range(
        schedule.first if schedule.complete else schedule.last, schedule.last + 1, schedule.interval
    )
    for due in wanted:
        if due not in made:
            yield Violation(f"schedule {schedule.name} left out {due}: it went on to {schedule.last}")
