"""What a campaign is: its size, its seed, and the compressed times that it runs by."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

LEASE: Final = 2.0
HEARTBEAT: Final = 0.4
CALL: Final = 0.6
"""How long a call of a worker may take: as long as such a lease allows, for many share two cores."""
SWEEP: Final = 0.5
GRACE: Final = 3.0
PREFETCH: Final = 1.0
KILL: Final = 1.0
LOST_LIMIT: Final = 5
SETTLE: Final = 30.0
DRAIN: Final = 1.0
"""Seconds from the last fault until all must be done: for a lease, a sweep, the longest pause before a retry
and the longest job; and for each job and each event that is left then, by the number of workers: all of the
jobs may be suspects that were lost often, of which few run side by side."""

JOBS_A_SECOND: Final = 250
"""What to expect of two cores; only the spacing of rare faults follows from it."""

NAMESPACE: Final = "torture"
CANDIDATES, PRODUCERS, CONTENDERS, CONSUMERS = 3, 2, 2, 2


@dataclass(frozen=True, slots=True)
class Campaign:
    """One campaign. It ends when so many jobs are stored, or after `seconds` of faults if that is sooner."""

    store: str
    jobs: int
    seed: int
    out: Path
    seconds: float | None = None
    workers: int = 4

    @property
    def expected(self) -> float:
        """About how long the faults will last, in seconds."""
        by_jobs = self.jobs / JOBS_A_SECOND
        return by_jobs if self.seconds is None else min(by_jobs, self.seconds)

    def environ(self) -> dict[str, str]:
        """The settings of every process."""
        return {
            "HOLDFAST_NAMESPACE": NAMESPACE,
            "HOLDFAST_AUTO_MIGRATE": "true",
            "HOLDFAST_LEASE_SECONDS": str(LEASE),
            "HOLDFAST_HEARTBEAT_SECONDS": str(HEARTBEAT),
            "HOLDFAST_LEADER_LEASE_SECONDS": str(LEASE),
            "HOLDFAST_RECLAIM_SECONDS": str(SWEEP),
            "HOLDFAST_POLL_SECONDS": "1",
            "HOLDFAST_PREFETCH_SECONDS": str(PREFETCH),
            "HOLDFAST_CALL_TIMEOUT_SECONDS": str(CALL),
            "HOLDFAST_GRACE_SECONDS": str(GRACE),
            "HOLDFAST_KILL_SECONDS": str(KILL),
            "HOLDFAST_LOST_LIMIT": str(LOST_LIMIT),
            "HOLDFAST_ENQUEUE_TIMEOUT_SECONDS": "3",
        }
