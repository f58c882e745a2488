"""How much of everything: full counts, quick ones to look, tiny ones to test the harness itself."""

from dataclasses import dataclass, replace


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
    pg_jobs: int
    """Stored jobs for each worker process on PostgreSQL."""
    pg_enqueued: int
    pg_slow_enqueued: int
    pg_bulk: int
    pg_probes: int
    pg_finished: int
    """Finished jobs, spread over the last days, in the database that is claimed from."""
    pg_future: int
    pg_claims: int
    pg_held_seconds: float
    redis_jobs: int
    redis_slow: int
    """For each of the slow peers; those that are slower still get a part of it."""
    redis_probes: int
    redis_seconds: float
    """How long locks are taken and released."""
    schedules: int
    schedule_seconds: float
    flow_jobs: int
    flow_keys: int
    flow_parked: int

    def scaled(self, part: float) -> "Plan":
        """The same with so much of the history on PostgreSQL, which takes disk, and of counts on Redis."""
        return replace(
            self,
            pg_finished=int(self.pg_finished * part),
            pg_future=int(self.pg_future * part),
            redis_jobs=max(100, int(self.redis_jobs * part)),
            redis_slow=max(100, int(self.redis_slow * part)),
            redis_probes=max(5, int(self.redis_probes * part)),
            redis_seconds=self.redis_seconds * part,
        )


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
    pg_jobs=40_000,
    pg_enqueued=20_000,
    pg_slow_enqueued=3_000,
    pg_bulk=100_000,
    pg_probes=300,
    pg_finished=10_000_000,
    pg_future=1_000_000,
    pg_claims=20_000,
    pg_held_seconds=120,
    redis_jobs=40_000,
    redis_slow=2_000,
    redis_probes=100,
    redis_seconds=1,
    schedules=100_000,
    schedule_seconds=20,
    flow_jobs=100_000,
    flow_keys=1_000,
    flow_parked=200_000,
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
    pg_jobs=20_000,
    pg_enqueued=10_000,
    pg_slow_enqueued=1_000,
    pg_bulk=30_000,
    pg_probes=100,
    pg_finished=500_000,
    pg_future=100_000,
    pg_claims=5_000,
    pg_held_seconds=20,
    redis_jobs=20_000,
    redis_slow=1_500,
    redis_probes=50,
    redis_seconds=0.5,
    schedules=10_000,
    schedule_seconds=10,
    flow_jobs=20_000,
    flow_keys=200,
    flow_parked=50_000,
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
    pg_jobs=40,
    pg_enqueued=50,
    pg_slow_enqueued=10,
    pg_bulk=50,
    pg_probes=3,
    pg_finished=100,
    pg_future=20,
    pg_claims=300,
    pg_held_seconds=0.5,
    redis_jobs=100,
    redis_slow=100,
    redis_probes=3,
    redis_seconds=0.05,
    schedules=500,
    schedule_seconds=2,
    flow_jobs=1_000,
    flow_keys=10,
    flow_parked=100,
)
