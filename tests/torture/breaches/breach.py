"""What a breach is, and how to find what it does its harm to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from holdfast.torture.dump import Attempt, Job
from holdfast.torture.history import Done, Line
from tests.torture.world import World

R = TypeVar("R", bound=Line)


@dataclass(frozen=True)
class Breach:
    """A promise that is broken, and the invariant that must notice."""

    invariant: str
    do: Callable[[World], None]

    def __str__(self) -> str:
        return f"{self.invariant}-{self.do.__name__}"


def of(world: World, kind: type[R]) -> Iterator[R]:
    return (record for record in world.records if isinstance(record, kind))


def ended(world: World, outcome: str, place: int = -1) -> tuple[Job, Attempt]:
    """A job and its attempt at this place, which ended so."""
    return next(
        (job, job.attempts[place])
        for job in world.jobs
        if len(job.attempts) > abs(place + 1) and job.attempts[place].outcome == outcome and not job.firing
    )


def answered(world: World) -> Job:
    told = {done.job for done in of(world, Done)}
    return next(job for job in world.jobs if job.id in told and job.state == "success")
