"""`python -m tests.torture.probes DIR NAME…`: does what each guard forbids, and prints which let it.

A mutant lets its own; a sound build lets none.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from holdfast.engine import consumer, enqueuer
from holdfast.model.errors import OutcomeUnknown, StoreUnavailable
from holdfast.model.lifecycle import REPLAYED
from holdfast.model.records import Added, Edit, Extension, Held, Move, NewJob, Query, Verdict
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.clock import ManualClock
from holdfast.testing.conformance.case import LEASE, Case, Subject, ended, new_job
from holdfast.testing.conformance.reclaim import lost
from holdfast.testing.conformance.schedules import write

PAST = 3_600_000_000
"""How far the store's clock lies behind the wall's, in microseconds: who goes by the latter is seen."""

Probe = Callable[[Case], Awaitable[bool]]


async def _taken_over(case: Case, by: str) -> tuple[Move, Move]:
    """A job of ann's is lost, and claimed by another; the reports of both attempts."""
    old = await case.add_and_claim("ann", lease=LEASE)
    case.advance(2.5)
    assert await case.move("bob", lost(old)) is Verdict.ACCEPTED
    return ended(old), ended(await case.claim_one(by))


async def no_token(case: Case) -> bool:
    stale, _ = await _taken_over(case, "bob")
    return await case.move("ann", stale) is Verdict.ACCEPTED


async def owner_only(case: Case) -> bool:
    stale, _ = await _taken_over(case, "ann")
    return await case.move("ann", stale) is Verdict.ACCEPTED


async def token_reused(case: Case) -> bool:
    job = await case.add_and_claim("ann")
    dead = await case.dead_letter(job)
    await case.jobs.edit(job.id, dead.version, Edit(path=REPLAYED))
    return (await case.claim_one("ann")).token <= job.token


async def worker_clock(case: Case) -> bool:
    """By the store's clock the lease has just begun."""
    job = await case.add_and_claim("ann")
    found = await case.jobs.expired(10)
    return bool(found) and await case.move("bob", lost(job)) is Verdict.ACCEPTED


async def renew_revives(case: Case) -> bool:
    stale, _ = await _taken_over(case, "bob")
    [told] = await case.jobs.extend("ann", [Extension(job=stale.job, token=stale.token, lease=LEASE)])
    return told is Held.HELD


class _Failing:
    """A store whose `add` raises once; what it was asked for."""

    def __init__(self, error: Exception) -> None:
        self._errors = [error]
        self.asked: list[Sequence[NewJob]] = []

    async def add(self, jobs: Sequence[NewJob]) -> list[Added]:
        self.asked.append(jobs)
        if self._errors:
            raise self._errors.pop()
        return []


async def early_answer(case: Case) -> bool:
    adding = enqueuer.Enqueuer(case.jobs, batch=10, timeout=5)
    job = new_job()
    [added] = await adding.add([job])
    return added.created and await case.jobs.get(job.id) is None


async def error_as_success(_: Case) -> bool:
    store: Any = _Failing(StoreUnavailable("cut off"))
    try:
        await enqueuer.Enqueuer(store, batch=10, timeout=5).add([new_job()])
    except StoreUnavailable:
        return False
    return True


async def blind_retry(_: Case) -> bool:
    store: Any = _Failing(OutcomeUnknown("lost"))
    await enqueuer.Enqueuer(store, batch=10, timeout=5).add([new_job()])
    first, second = store.asked
    return bool(first[0].id != second[0].id)


async def check_then_insert(case: Case) -> bool:
    other = await case.open()
    made = await asyncio.gather(*(each.add([new_job(key="k")]) for each in (case.jobs, other.jobs)))
    return len({answers[0].record.id for answers in made}) > 1


async def high_water_cursor(_: Case) -> bool:
    return consumer.Consumer._read.__name__ != "_read"


async def no_firing_key(case: Case) -> bool:
    """The reply was lost, and the same is written again."""
    firing = write(jobs=(new_job(),))
    for _ in range(2):
        await case.session.schedules.write([firing])
    return len(await case.jobs.find(Query())) > 1


async def non_atomic_reap(case: Case) -> bool:
    """Another has taken the job back, and claimed it, since it was seen to be lost."""
    old = await case.add_and_claim("ann", lease=LEASE)
    case.advance(2.5)
    assert await case.move("bob", lost(old)) is Verdict.ACCEPTED
    new = await case.claim_one("bob")
    await case.move("cid", lost(old))
    return (await case.reload(new)).worker is None


PROBES: dict[str, Probe] = {
    probe.__name__.replace("_", "-"): probe
    for probe in (
        no_token,
        owner_only,
        token_reused,
        worker_clock,
        renew_revives,
        early_answer,
        error_as_success,
        blind_retry,
        check_then_insert,
        high_water_cursor,
        no_firing_key,
        non_atomic_reap,
    )
}


def let_through(folder: Path, name: str) -> bool:
    """Whether this build lets what the guard forbids."""
    clock = ManualClock(time.time_ns() // 1_000 - PAST)
    subject = Subject(SqliteStore.from_url(f"sqlite:///{folder}/{name}.db", clock=clock), clock.advance)
    found: list[bool] = []

    async def look(case: Case) -> None:
        found.append(await PROBES[name](case))

    asyncio.run(Case(subject).run(look))
    return found[0]


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    sys.stdout.write(" ".join(name for name in sys.argv[2:] if let_through(folder, name)))
