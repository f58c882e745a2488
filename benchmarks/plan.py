"""How much of everything: full counts, quick ones to look, tiny ones to test the harness itself."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Counts of one run. The peer gets fewer jobs: it is slower, and its rate does not depend on them."""

    name: str
    rounds: int
    memory_jobs: int
    sqlite_jobs: int
    peer_jobs: int
    enqueued: int
    flat_rows: int
    """Future jobs, and as many finished ones, in the store that is claimed from."""
    flat_claims: int
    idle_seconds: float
    probes: int
    """Single jobs sent to an idle worker."""


FULL = Plan(
    name="full",
    rounds=5,
    memory_jobs=50_000,
    sqlite_jobs=30_000,
    peer_jobs=3_000,
    enqueued=20_000,
    flat_rows=1_000_000,
    flat_claims=20_000,
    idle_seconds=10,
    probes=300,
)
QUICK = Plan(
    name="quick",
    rounds=3,
    memory_jobs=20_000,
    sqlite_jobs=10_000,
    peer_jobs=1_000,
    enqueued=5_000,
    flat_rows=100_000,
    flat_claims=5_000,
    idle_seconds=3,
    probes=100,
)
TINY = Plan(
    name="tiny",
    rounds=1,
    memory_jobs=50,
    sqlite_jobs=50,
    peer_jobs=5,
    enqueued=50,
    flat_rows=50,
    flat_claims=20,
    idle_seconds=0.05,
    probes=2,
)
