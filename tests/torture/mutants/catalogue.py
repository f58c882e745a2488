"""The mutants: what is taken away, from which stores, and which invariants may notice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.torture.mutants import engine, seam, sqlite

EVERYWHERE = ("sqlite", "postgresql", "redis")
WORKING = "workers=3,producers=2"


@dataclass(frozen=True)
class Mutant:
    """A build without one guard.

    Any of `noticed_by` is enough to catch it. `stores` are those that it can be made of, `crew` is who must
    take part.
    """

    name: str
    what: str
    install: Callable[[], None]
    noticed_by: tuple[str, ...]
    stores: tuple[str, ...] = EVERYWHERE
    crew: str = WORKING


_ALL = (
    Mutant(
        "no-token",
        "a report is taken whatever its token",
        seam.take_any_report,
        ("I2", "I4"),
    ),
    Mutant(
        "owner-only",
        "a report is taken from whoever holds the job, whatever its token",
        seam.take_holders_report,
        ("I2", "I4"),
        crew="workers=2,producers=2",
    ),
    Mutant(
        "token-reused",
        "a replayed job begins its tokens anew",
        sqlite.reuse_tokens,
        ("I3",),
        stores=("sqlite",),
        crew="workers=3,producers=1,operators=1",
    ),
    Mutant(
        "worker-clock",
        "a worker's own clock ends leases",
        seam.expire_by_own_clock,
        ("I6",),
    ),
    Mutant(
        "renew-revives",
        "a heartbeat brings a lost lease back",
        sqlite.revive_leases,
        ("I2", "I3", "I4", "I5"),
        stores=("sqlite",),
    ),
    Mutant(
        "early-answer",
        "an enqueue is answered before it is stored",
        engine.answer_early,
        ("I1", "I8"),
    ),
    Mutant(
        "error-as-success",
        "an enqueue that failed is told as done",
        engine.take_errors_for_success,
        ("I1",),
    ),
    Mutant(
        "blind-retry",
        "an enqueue of unknown outcome is made again as a new one",
        engine.retry_blindly,
        ("I1", "I8"),
    ),
    Mutant(
        "check-then-insert",
        "whether a key is free is asked first, and then it is taken",
        seam.check_then_insert,
        ("I8",),
    ),
    Mutant(
        "high-water-cursor",
        "a group's cursor moves on before the events are dealt with",
        engine.move_cursor_first,
        ("I11",),
        crew="workers=1,producers=2,consumers=2",
    ),
    Mutant(
        "no-firing-key",
        "a schedule's job is stored apart from its due time",
        seam.fire_without_key,
        ("I10",),
        crew="workers=1,producers=1,schedulers=2",
    ),
    Mutant(
        "non-atomic-reap",
        "a lease that was seen to have ended is taken back later, unseen",
        seam.reap_in_two_steps,
        ("I2", "I4", "I6"),
    ),
)

MUTANTS = {mutant.name: mutant for mutant in _ALL}


def _take_nothing_away() -> None:
    """The product as it is."""


NONE = Mutant("none", "nothing is taken away", _take_nothing_away, ())
"""What campaigns with mutants are compared with: it must break nothing."""
