"""All cases, with what the project asks of each."""

from functools import partial

from benchmarks.case import CPU, LOAD, P50, RATE, Case, Goal, Side
from benchmarks.flow import POSTGRES as POSTGRES_FLOW
from benchmarks.flow import REDIS as REDIS_FLOW
from benchmarks.flow import SQLITE as SQLITE_FLOW
from benchmarks.partition import POSTGRES as POSTGRES_PARTITION
from benchmarks.partition import REDIS as REDIS_PARTITION
from benchmarks.postgres.cases import CASES as POSTGRES
from benchmarks.redis.cases import CASES as REDIS
from benchmarks.schedules import POSTGRES as POSTGRES_SCHEDULES
from benchmarks.schedules import REDIS as REDIS_SCHEDULES
from benchmarks.sides import enqueue, flat, huey_peer, idle, latency, raw, work

HUEY = "huey"

FRAMEWORK = Case(
    name="framework",
    title="cost of a no-op job on the memory store, the store included",
    sides=(
        Side("async handler", partial(work.memory, task="noop_async")),
        Side("sync handler", partial(work.memory, task="noop_sync")),
    ),
    goals=(
        Goal(text="async no-op: at most 35 µs of CPU", side="async handler", figure=CPU, at_most=35),
        Goal(
            text="sync no-op: at most 1.5 × async",
            side="sync handler",
            figure=CPU,
            over=("async handler",),
            at_most=1.5,
        ),
    ),
)
NOTICES = Case(
    name="notices",
    title="the same with nobody listening to notices, and with one listener",
    sides=(
        Side("nobody listens", partial(work.memory, task="noop_async")),
        Side("one listener", partial(work.memory, task="noop_async", listened=True)),
    ),
)
WORK = Case(
    name="work",
    title="stored no-op jobs on SQLite, synchronous=FULL, one worker process, until all are finished",
    sides=(
        Side("holdfast, 100 slots", work.sqlite),
        Side("holdfast, 10 slots", partial(work.sqlite, concurrency=10)),
        Side("huey, 1 thread", partial(huey_peer.work, workers=1), needs=HUEY),
        Side("huey, 4 threads", partial(huey_peer.work, workers=4), needs=HUEY),
        Side("raw", partial(raw.work, by_job=True)),
        Side("raw, batch as one", partial(raw.work, by_job=False)),
    ),
    goals=(
        Goal(
            text="work: at least 8 × Huey",
            side="holdfast, 100 slots",
            figure=RATE,
            over=("huey, 1 thread", "huey, 4 threads"),
            at_least=8,
        ),
        Goal(
            text="work: at least 0.5 × raw SQL",
            side="holdfast, 100 slots",
            figure=RATE,
            over=("raw",),
            at_least=0.5,
        ),
    ),
)
ENQUEUE = Case(
    name="enqueue",
    title="enqueueing from 100 callers at once on SQLite, synchronous=FULL",
    sides=(
        Side("holdfast, 100 callers", enqueue.sqlite),
        Side("huey, 1 thread", partial(huey_peer.enqueue, threads=1), needs=HUEY),
        Side("huey, 100 threads", partial(huey_peer.enqueue, threads=100), needs=HUEY),
    ),
    goals=(
        Goal(
            text="enqueue: at least 4 × Huey",
            side="holdfast, 100 callers",
            figure=RATE,
            over=("huey, 1 thread", "huey, 100 threads"),
            at_least=4,
        ),
    ),
)
FLAT = Case(
    name="flat",
    title="claims of 100 on SQLite, with a million future and a million finished jobs, and without",
    prepare=flat.prepare,
    sides=(Side("empty store", flat.empty), Side("big store", flat.big)),
    goals=(
        Goal(
            text="claims from the big store: at least 0.8 × empty",
            side="big store",
            figure=flat.CLAIMS,
            over=("empty store",),
            at_least=0.8,
        ),
    ),
)
IDLE = Case(
    name="idle",
    title="CPU of a worker with nothing to do",
    sides=(Side("memory", idle.memory), Side("sqlite", idle.sqlite)),
    goals=(
        Goal(text="idle on memory: under 1 % of a core", side="memory", figure=LOAD, at_most=1),
        Goal(text="idle on SQLite: under 1 % of a core", side="sqlite", figure=LOAD, at_most=1),
    ),
)
LATENCY = Case(
    name="latency",
    title="from enqueue to the handler's start, idle worker",
    sides=(
        Side("memory, same process", latency.memory),
        Side("sqlite, same process", latency.sqlite),
        Side("sqlite, other process", latency.other_process),
    ),
    goals=(
        Goal(text="start, memory: p50 at most 5 ms", side="memory, same process", figure=P50, at_most=5),
        Goal(
            text="start, SQLite, same process: p50 at most 5 ms",
            side="sqlite, same process",
            figure=P50,
            at_most=5,
        ),
        Goal(
            text="start, SQLite, from another process: p50 at most 30 ms",
            side="sqlite, other process",
            figure=P50,
            at_most=30,
        ),
    ),
)
PEER = Case(
    name="huey",
    title="the search for Huey's best settings",
    usual=False,
    sides=tuple(
        Side(f"{workers} {kind}", partial(huey_peer.work, workers=workers, kind=kind), needs=HUEY)
        for kind, workers in (("thread", 1), ("thread", 4), ("thread", 8), ("process", 1), ("process", 2))
    ),
)

CASES = (
    *(FRAMEWORK, NOTICES, WORK, ENQUEUE, FLAT, IDLE, LATENCY, PEER, *SQLITE_FLOW),
    *(*POSTGRES, *POSTGRES_SCHEDULES, *POSTGRES_FLOW, *POSTGRES_PARTITION),
    *(*REDIS, *REDIS_SCHEDULES, *REDIS_FLOW, *REDIS_PARTITION),
)
