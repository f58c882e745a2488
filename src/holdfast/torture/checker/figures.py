"""How much was at stake: what really happened, how fast jobs were taken over, and how sure one may be."""

from __future__ import annotations

from collections import Counter

import msgspec

from holdfast.torture.checker.case import Case, kind_of
from holdfast.torture.checker.takeovers import Takeover, find_takeovers
from holdfast.torture.history import Unknown

TAKEN = frozenset({"lost", "superseded"})


class Spread(msgspec.Struct, frozen=True):
    """How long take-overs lasted, in microseconds, from the holder's end to the job's next start."""

    count: int
    p50: int
    p99: int
    longest: int


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one campaign. `bound` is the 95 % bound on failures per job if none was seen."""

    records: int
    seconds: float
    jobs: int
    states: dict[str, int]
    attempts: int
    again: int
    effects: int
    repeated_effects: int
    events: int
    deliveries: int
    grants: int
    firings: int
    faults: dict[str, int]
    stale_writes: int
    unknown_outcomes: int
    takeovers: int
    leader_changes: int
    lost_replies: int
    takeover: Spread | None
    bound: float


class Floor(msgspec.Struct, frozen=True):
    """What must have happened at least so often for a clean result to mean something."""

    name: str
    least: int
    reached: int

    @property
    def is_reached(self) -> bool:
        return self.reached >= self.least


def measure(case: Case) -> Figures:
    jobs = case.dump.jobs
    taken = find_takeovers(case)
    effects = Counter(effect.job for effect in case.effects)
    terms = {led.term for led in case.led}
    return Figures(
        records=case.records,
        seconds=(case.ended - case.begun) / 1_000_000,
        jobs=len(jobs),
        states=dict(sorted(Counter(job.state for job in jobs).items())),
        attempts=sum(len(job.attempts) for job in jobs),
        again=sum(max(0, len(job.attempts) - 1) for job in jobs),
        effects=len(case.effects),
        repeated_effects=len(case.effects) - len(effects),
        events=len(case.dump.events),
        deliveries=sum(map(len, case.consumed.values())),
        grants=sum(map(len, case.granted.values())),
        firings=sum(job.firing is not None for job in jobs),
        faults=dict(sorted(Counter(kind_of(fault) for fault in case.faults if fault.phase != "end").items())),
        stale_writes=_stale_writes(case),
        unknown_outcomes=sum(
            asked.answer is None or isinstance(asked.answer, Unknown) for asked in case.calls
        ),
        takeovers=sum(attempt.outcome in TAKEN for job in jobs for attempt in job.attempts[:-1]),
        leader_changes=max(0, len(terms) - 1),
        lost_replies=sum(fault.count for fault in case.faults if kind_of(fault) == "lost reply"),
        takeover=_spread(taken),
        bound=3 / len(jobs) if jobs else 1.0,
    )


def _stale_writes(case: Case) -> int:
    """Writes that came too late and were refused: of attempts, and to what a lock protects."""
    moves = sum(
        not verdict.accepted and verdict.outcome not in TAKEN
        for verdicts in case.verdicts.values()
        for verdict in verdicts
    )
    return moves + sum(not write.accepted for writes in case.fenced.values() for write in writes)


def _spread(takeovers: list[Takeover]) -> Spread | None:
    if not takeovers:
        return None
    times = sorted(takeover.lasted for takeover in takeovers)
    last = len(times) - 1
    return Spread(len(times), times[last // 2], times[round(last * 0.99)], times[-1])


def floors_of(case: Case, figures: Figures) -> tuple[Floor, ...]:
    """The floors that the campaign set itself, against what it reached."""
    reached = {
        "jobs": figures.jobs,
        "stale writes": figures.stale_writes,
        "unknown outcomes": figures.unknown_outcomes,
        "take-overs": figures.takeovers,
        "leader changes": figures.leader_changes,
        "lost replies": figures.lost_replies,
    }
    least = dict.fromkeys(reached, 1) | case.dump.floors
    return tuple(
        Floor(name, number, reached.get(name, figures.faults.get(name, 0))) for name, number in least.items()
    )
