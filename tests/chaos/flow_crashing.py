"""Processes that kill themselves where others wait for what a call does: `flow_crashing STORE CALL ...`."""

import sys
import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from msgspec.structs import replace

from holdfast.model.flow import NewFlow
from holdfast.model.lifecycle import Ending
from holdfast.stores.postgres.flow import PostgresFlow
from holdfast.stores.redis.flow import RedisFlow
from holdfast.stores.sqlite.flow import SqliteFlow
from tests.chaos import crashing, failpoint, postgres_failpoint, program, redis_failpoint
from tests.chaos.crashing import Ready, app
from tests.chaos.failpoint import CALLS, anything, ends_with

LINE = "line"
FLOW_CALLS: dict[str, tuple[str, Callable[..., bool]]] = {
    "end-limited": ("tick", ends_with(Ending.SUCCESS)),
    "end-in-line": ("tick", ends_with(Ending.SUCCESS)),
    "end-first": ("tick", ends_with(Ending.SUCCESS)),
    "end-in-batch": ("tick", ends_with(Ending.SUCCESS)),
    "halt": ("tick", ends_with(Ending.FAILED)),
    "add-after": ("add", anything),
    "put": ("swap", anything),
    "close": ("release", anything),
}
"""Each call is about a job of the namespace, and about another that it frees."""


def other(job: str) -> str:
    """The id of the job that waits for the first."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, job))


async def serve_both(job: str, ready: Ready, **options: Any) -> None:
    await app.limits.set(key=LINE, concurrency=1)
    await program.work.using(id=job, **options).enqueue()
    await program.work.using(id=other(job), **options).enqueue()
    await serve(ready)


async def serve(ready: Ready) -> None:
    ready()
    await app.worker().run(until_idle=True)


async def end_first(job: str, ready: Ready) -> None:
    await program.work.using(id=job).enqueue()
    await program.work.using(id=other(job), after=[job]).enqueue()
    await serve(ready)


async def fill(job: str) -> None:
    """A batch of one job; the other is at its end."""
    closing = program.work.call().to_new_job(other(job))
    member = program.work.using(id=job).call().in_batch(closing.id).to_new_job(job)
    await app.client.add([replace(closing, flow=NewFlow(held=True, after_any=True)), member])


async def end_in_batch(job: str, ready: Ready) -> None:
    await fill(job)
    await app.batches.close(other(job))
    await serve(ready)


async def close(job: str, ready: Ready) -> None:
    await fill(job)
    ready()
    await app.batches.close(other(job))


async def halt(job: str, ready: Ready) -> None:
    await program.fail.using(id=job, sequence_key=LINE, on_failure="halt").enqueue(2)
    await program.work.using(id=other(job), sequence_key=LINE).enqueue()
    await serve(ready)


async def add_after(job: str, ready: Ready) -> None:
    await program.work.using(id=job).enqueue()
    ready()
    await program.work.using(id=other(job), after=[job]).enqueue()


async def put(job: str, ready: Ready) -> None:
    await program.work.using(id=job).enqueue()
    await program.work.using(id=other(job)).enqueue()
    ready()
    await app.limits.set(task="work", concurrency=1)


SCENARIOS: dict[str, Callable[[str, Ready], Awaitable[None]]] = {
    "end-limited": partial(serve_both, limit_key=LINE),
    "end-in-line": partial(serve_both, sequence_key=LINE),
    "end-first": end_first,
    "end-in-batch": end_in_batch,
    "halt": halt,
    "add-after": add_after,
    "put": put,
    "close": close,
}


def install(store: str) -> None:
    """Adds these calls to those that can be crashed."""
    CALLS.update(FLOW_CALLS)
    crashing.SCENARIOS.update(SCENARIOS)
    # Limits and links are another part of the session than jobs; the fleet has nothing to do here.
    failpoint.SqliteFleet = SqliteFlow  # type: ignore[assignment, attr-defined]
    postgres_failpoint.PostgresFleet = PostgresFlow  # type: ignore[assignment, attr-defined]
    redis_failpoint.RedisFleet = RedisFlow  # type: ignore[assignment, attr-defined]
    kinds = {"postgres": postgres_failpoint.PostgresFailpoint, "redis": redis_failpoint.RedisFailpoint}
    crashing.Failpoint = kinds.get(store, failpoint.Failpoint)  # type: ignore[attr-defined]


if __name__ == "__main__":
    install(sys.argv[1])
    crashing.main(sys.argv[2:])
