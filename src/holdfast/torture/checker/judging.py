"""Runs all invariants over a case, and says what follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import msgspec

from holdfast.torture.checker import acceptance, effects, events, firings, leases, locks, logs, settling
from holdfast.torture.checker.case import Case
from holdfast.torture.checker.figures import Figures, Floor, floors_of, measure
from holdfast.torture.checker.violation import Finding, Violation, find_places

SHOWN = 20
"""How many violations of one invariant are told with their evidence; all are counted."""

Word = Literal["passed", "violated", "vacuous"]


@dataclass(frozen=True, slots=True)
class Invariant:
    """A promise that the checker can refute."""

    name: str
    title: str
    check: Callable[[Case], Iterator[Violation]]


INVARIANTS = (
    Invariant(
        "I1", "An accepted job is there once, a refused one is not", acceptance.accepted_jobs_are_there
    ),
    Invariant("I2", "A job is completed at most once", leases.one_completion),
    Invariant("I3", "The tokens of a job increase", leases.tokens_increase),
    Invariant("I4", "Nothing is recorded without the current token", leases.accepted_writes_are_current),
    Invariant("I5", "Every extra attempt has a recorded cause", leases.extra_attempts_have_causes),
    Invariant("I6", "Leases of a job never overlap", leases.leases_never_overlap),
    Invariant("I7", "Effects commit with their completion, once", effects.ledger_matches_completions),
    Invariant("I8", "One key, one job", acceptance.one_job_per_key),
    Invariant("I9", "Locks are linearizable", locks.locks_are_linearizable),
    Invariant("I10", "One job for each due time of a schedule", firings.one_job_per_due_time),
    Invariant("I11", "Events arrive, in order, if they were committed", events.events_arrive_in_order),
    Invariant("I12", "Everything settles once faults stop", settling.everything_settles_in_time),
    Invariant("I13", "Nothing is left behind", settling.nothing_is_left_behind),
    Invariant("I14", "What was reported as done is done", acceptance.told_success_is_committed),
    Invariant("I15", "Logs show no secret and no unhandled exception", logs.logs_are_clean),
)


class Ruling(msgspec.Struct, frozen=True):
    """What was found about one invariant: how many violations, and the first of them."""

    name: str
    title: str
    violations: int
    findings: tuple[Finding, ...]


class Judgement(msgspec.Struct, frozen=True):
    """What the checker says: `vacuous` if nothing is broken, but too little was at stake to say so."""

    word: Word
    rulings: tuple[Ruling, ...]
    figures: Figures
    floors: tuple[Floor, ...]

    @property
    def broken(self) -> tuple[str, ...]:
        return tuple(ruling.name for ruling in self.rulings if ruling.violations)


def judge(case: Case) -> Judgement:
    rulings = tuple(_rule(case, invariant) for invariant in INVARIANTS)
    figures = measure(case)
    floors = floors_of(case, figures)
    return Judgement(_word(rulings, floors), rulings, figures, floors)


def _rule(case: Case, invariant: Invariant) -> Ruling:
    violations = invariant.check(case)
    shown = list(islice(violations, SHOWN))
    count = len(shown) + sum(1 for _ in violations)
    return Ruling(invariant.name, invariant.title, count, tuple(find_places(case.out, shown)))


def _word(rulings: tuple[Ruling, ...], floors: tuple[Floor, ...]) -> Word:
    if any(ruling.violations for ruling in rulings):
        return "violated"
    return "passed" if all(floor.is_reached for floor in floors) else "vacuous"
