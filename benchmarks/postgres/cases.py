"""The cases on PostgreSQL, with what the project asks of each."""

from functools import partial

from benchmarks.case import P50, P99, RATE, Case, Goal, Side
from benchmarks.postgres import growth, held, measures, sides
from benchmarks.sides.flat import CLAIMS

SUITE = "postgres"
OURS = "holdfast"
PGQUEUER = "pgqueuer"
PROCRASTINATE = "procrastinate"
GRAPHILE = "graphile-worker"
BATCH = "graphile-worker, batch"
BARE = "bare loop"
COPY = "COPY"
TWO = "holdfast, 2 processes"
BATCH_TWO = "graphile-worker, batch, 2 processes"

PROGRAMS = {
    OURS: sides.HOLDFAST,
    PGQUEUER: sides.PGQUEUER_BATCH,
    PROCRASTINATE: sides.PROCRASTINATE_POOL,
    GRAPHILE: sides.GRAPHILE_PLAIN,
    BATCH: sides.GRAPHILE_BATCH,
    BARE: sides.BARE,
    COPY: sides.COPY,
}


def _work(name: str, program: str, processes: int = 1) -> Side:
    chosen = PROGRAMS[program]
    return Side(name, partial(measures.work, program=chosen, processes=processes), install=chosen.install)


def _enqueue(name: str, *, is_slow: bool = False) -> Side:
    chosen = PROGRAMS[name]
    return Side(name, partial(measures.enqueue, program=chosen, is_slow=is_slow), install=chosen.install)


def _latency(name: str) -> Side:
    chosen = PROGRAMS[name]
    return Side(name, partial(measures.latency, program=chosen), install=chosen.install)


WORK = Case(
    name="pg-work",
    title="stored no-op jobs on PostgreSQL, one worker process, until all are finished",
    suite=SUITE,
    usual=False,
    sides=tuple(_work(name, name) for name in (OURS, PGQUEUER, BATCH, BARE)),
    goals=(
        Goal(text="work: at least 2.5 × PgQueuer", side=OURS, figure=RATE, over=(PGQUEUER,), at_least=2.5),
        Goal(
            text="work: at least level with graphile-worker in batch mode (aim: 1.3 ×)",
            side=OURS,
            figure=RATE,
            over=(BATCH,),
            at_least=1,
        ),
        Goal(text="work: at least 0.6 × a bare loop", side=OURS, figure=RATE, over=(BARE,), at_least=0.6),
    ),
)
TWO_WORKERS = Case(
    name="pg-two",
    title="the same with two worker processes",
    suite=SUITE,
    usual=False,
    sides=(_work(TWO, OURS, 2), _work(BATCH_TWO, BATCH, 2)),
    goals=(
        Goal(
            text="two processes: at least level with graphile-worker's two",
            side=TWO,
            figure=RATE,
            over=(BATCH_TWO,),
            at_least=1,
        ),
    ),
)
ENQUEUE = Case(
    name="pg-enqueue",
    title="enqueueing one by one from 100 callers at once on PostgreSQL",
    suite=SUITE,
    usual=False,
    sides=(_enqueue(OURS), _enqueue(PGQUEUER, is_slow=True), _enqueue(PROCRASTINATE, is_slow=True)),
    goals=(
        Goal(
            text="enqueue: at least 5 × procrastinate",
            side=OURS,
            figure=RATE,
            over=(PROCRASTINATE,),
            at_least=5,
        ),
    ),
)
BULK = Case(
    name="pg-bulk",
    title="enqueueing a thousand a call, and COPY of the same rows into the same table",
    suite=SUITE,
    usual=False,
    sides=tuple(Side(name, partial(measures.bulk, program=PROGRAMS[name])) for name in (OURS, COPY)),
    goals=(
        Goal(text="bulk enqueue: at least 0.8 × COPY", side=OURS, figure=RATE, over=(COPY,), at_least=0.8),
    ),
)
LATENCY = Case(
    name="pg-latency",
    title="from enqueue to the handler's start in another process, idle worker, one job every 20 ms",
    suite=SUITE,
    usual=False,
    sides=tuple(_latency(name) for name in (OURS, PGQUEUER, PROCRASTINATE, GRAPHILE)),
    goals=(
        Goal(text="start: p50 under 3 ms", side=OURS, figure=P50, at_most=3),
        Goal(
            text="start: p99 under every peer's",
            side=OURS,
            figure=P99,
            over=(PGQUEUER, PROCRASTINATE, GRAPHILE),
            at_most=1,
        ),
    ),
)
GROWTH = Case(
    name="pg-growth",
    title="claims with ten million finished and a million future jobs, and while a day of history is dropped",
    suite=SUITE,
    usual=False,
    prepare=growth.prepare,
    clean=growth.clean,
    sides=(
        Side("empty database", growth.empty),
        Side("big database", growth.big),
        Side("a day dropped", growth.drop),
    ),
    goals=(
        Goal(
            text="claims from the big database: at least 0.8 × empty",
            side="big database",
            figure=CLAIMS,
            over=("empty database",),
            at_least=0.8,
        ),
        Goal(
            text="a day of history dropped: no pause above 100 ms",
            side="a day dropped",
            figure=growth.PAUSE,
            at_most=100,
        ),
    ),
)

HELD = Case(
    name="pg-held",
    title="ticks of 100 jobs, 2,000 jobs a second, while a REPEATABLE READ transaction stays open",
    suite=SUITE,
    usual=False,
    sides=(Side("free", held.free), Side("held", held.held)),
    goals=(
        Goal(
            text="a held transaction: p99 of a tick at most 3 × without",
            side="held",
            figure=P99,
            over=("free",),
            at_most=3,
        ),
    ),
)

CASES = (WORK, TWO_WORKERS, ENQUEUE, BULK, LATENCY, GROWTH, HELD)
