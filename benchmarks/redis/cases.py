"""The cases on Redis, with what the project asks of each."""

from functools import partial

from benchmarks.case import P50, P99, RATE, Case, Goal, Side
from benchmarks.redis import measures, sides

SUITE = "redis"
OURS = "holdfast"
BARE = "bare loop"
BULLMQ = "BullMQ"
SAQ = "SAQ"
HUEY = "huey, 4 threads"
HUEY_ONE = "huey, 1 thread"
STREAQ = "streaq"
TASKIQ = "taskiq, stream"
CELERY = "celery, 8 threads"
CELERY_PREFORK = "celery, 2 children"
RQ = "RQ, no forks"
REDIS_PY = "redis-py"
REDIS_LOCK = "python-redis-lock"
POTTERY = "pottery"

PYTHON = {
    SAQ: sides.SAQ,
    STREAQ: sides.STREAQ,
    "arq": sides.ARQ,
    TASKIQ: sides.TASKIQ,
    "dramatiq, 8 threads": sides.DRAMATIQ,
    HUEY: sides.HUEY_FOUR,
    HUEY_ONE: sides.HUEY_ONE,
    CELERY: sides.CELERY_THREADS,
    CELERY_PREFORK: sides.CELERY_PREFORK,
    RQ: sides.RQ,
}
PROBED = tuple(name for name in PYTHON if name != HUEY_ONE)
"""Those whose latency is measured, each program once."""
PARTS = {STREAQ: 0.5, CELERY: 0.5, CELERY_PREFORK: 0.5, RQ: 0.2}
"""Peers that are slower than the slow ones get fewer jobs."""
NEED_FUNCTIONS = (STREAQ,)
"""Peers that do not run on Redis 6.2."""


def _work(name: str) -> Side:
    chosen = PYTHON[name]
    measure = partial(
        measures.work, program=chosen, part=PARTS.get(name, 1), functions=name in NEED_FUNCTIONS
    )
    return Side(name, measure, install=chosen.install)


def _latency(name: str) -> Side:
    chosen = {OURS: sides.HOLDFAST, BULLMQ: sides.BULLMQ, **PYTHON}[name]
    measure = partial(measures.latency, program=chosen, functions=name in NEED_FUNCTIONS)
    return Side(name, measure, install=chosen.install)


WORK = Case(
    name="redis-work",
    title="stored no-op jobs on Redis, one worker process, until all are finished",
    suite=SUITE,
    usual=False,
    sides=(
        Side(OURS, partial(measures.work, program=sides.HOLDFAST)),
        Side(BARE, partial(measures.work, program=sides.BARE)),
        Side(BULLMQ, partial(measures.work, program=sides.BULLMQ, part=5), install=sides.BULLMQ.install),
        *map(_work, PYTHON),
    ),
    goals=(
        Goal(
            text="work: at least 8 × the fastest Python peer",
            side=OURS,
            figure=RATE,
            over=tuple(PYTHON),
            at_least=8,
        ),
        Goal(text="work: at least 2.5 × BullMQ", side=OURS, figure=RATE, over=(BULLMQ,), at_least=2.5),
        Goal(text="work: at least 0.5 × a bare loop", side=OURS, figure=RATE, over=(BARE,), at_least=0.5),
    ),
)
LATENCY = Case(
    name="redis-latency",
    title="from enqueue to the handler's start in another process, idle worker, one job every 20 ms",
    suite=SUITE,
    usual=False,
    sides=tuple(map(_latency, (OURS, BULLMQ, *PROBED))),
    goals=tuple(
        Goal(
            text=f"start: {name} under every peer's",
            side=OURS,
            figure=figure,
            over=(BULLMQ, *PROBED),
            at_most=1,
        )
        for name, figure in (("p50", P50), ("p99", P99))
    ),
)
ENQUEUE = Case(
    name="redis-enqueue",
    title="enqueueing one by one from 100 callers at once on Redis",
    suite=SUITE,
    usual=False,
    sides=(
        Side(OURS, partial(measures.enqueue, program=sides.HOLDFAST)),
        *(
            Side(name, partial(measures.enqueue, program=chosen, is_slow=True), install=chosen.install)
            for name, chosen in ((BULLMQ, sides.BULLMQ), (SAQ, sides.SAQ), (TASKIQ, sides.TASKIQ))
        ),
    ),
)
LOCKS = Case(
    name="redis-locks",
    title="locks on Redis taken and released by 50 contenders of one process, all the same, and each its own",
    suite=SUITE,
    usual=False,
    sides=tuple(
        Side(name, partial(measures.locks, program=chosen), install=chosen.install)
        for name, chosen in (
            (OURS, sides.HOLDFAST_LOCKS),
            (REDIS_PY, sides.REDIS_PY_LOCKS),
            (REDIS_LOCK, sides.REDIS_LOCK_LOCKS),
            (POTTERY, sides.POTTERY_LOCKS),
        )
    ),
)

CASES = (WORK, LATENCY, ENQUEUE, LOCKS)
