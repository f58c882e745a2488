"""All routes together."""

from __future__ import annotations

from itertools import chain

from holdfast.web import (
    batches,
    bulk,
    dead_letters,
    enqueue,
    events,
    fleet,
    jobs,
    limits,
    locks,
    overview,
    queues,
    schedules,
    session,
    stream,
    tasks,
    watching,
)
from holdfast.web.routing import Table

TABLE = Table(
    chain(
        session.routes,
        overview.routes,
        jobs.routes,
        enqueue.routes,
        bulk.routes,
        queues.routes,
        limits.routes,
        schedules.routes,
        fleet.routes,
        locks.routes,
        events.routes,
        dead_letters.routes,
        batches.routes,
        tasks.routes,
        stream.routes,
        watching.routes,
        watching.root_routes,
    )
)
