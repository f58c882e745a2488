"""A heartbeat, a start and a reclaim of one job at the same moment: they meet in its lease, and one wins."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import asyncpg
import msgspec
import pytest

from holdfast.model.lifecycle import State
from holdfast.model.outcome import reclaim, start
from holdfast.model.records import Extension, Held, JobRecord, Verdict
from holdfast.stores.postgres.moving import as_dict
from holdfast.testing import ManualClock
from holdfast.testing.conformance import Subject
from holdfast.testing.conformance.case import Case
from tests.chaos.waiting import until_async
from tests.postgres.support import place

T = TypeVar("T")

SCHEMA = "races"
LEASE = 10_000_000
WAITING = """SELECT count(*) FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND datname = current_database()"""


class Race:
    """A claimed job, and somebody else's connection with an open transaction on it."""

    def __init__(self, case: Case, connection: Any, ns: int) -> None:
        self.case = case
        self.connection = connection
        self.ns = ns

    async def begin_extend(self, job: JobRecord) -> None:
        sql = f"SELECT {SCHEMA}.extend_v1($1, 'ann', $2, $3, $4, $5, $6, $7)"
        told = await self.connection.fetchval(
            sql, self.ns, [job.id], [job.token], [LEASE], [None], [None], [None]
        )
        assert told == "h"

    async def begin_reclaim(self, job: JobRecord) -> None:
        """Reclaims it at a moment that is a little later than now, after the lease's end."""
        sql = f"SELECT {SCHEMA}.move_v1($1, 'bob', {SCHEMA}.now_v1() + 2000000, $2)"
        move = msgspec.json.encode(as_dict(reclaim(job, 5))).decode()
        assert await self.connection.fetchval(sql, self.ns, move)

    async def commit_under(self, call: Awaitable[T]) -> T:
        """Commits the open transaction once the call waits for it; what the call then gives."""
        async with asyncio.timeout(10):
            waiting = asyncio.ensure_future(call)
            await until_async(lambda: self.connection.fetchval(WAITING), "it waits")
            assert not waiting.done()
            await self.connection.execute("COMMIT")
            return await waiting


@asynccontextmanager
async def race(url: str) -> AsyncGenerator[tuple[Race, JobRecord]]:
    clock = ManualClock()
    case = Case(Subject(place(url, SCHEMA).clocked(clock), clock.advance))
    connection = await asyncpg.connect(url)
    case.session = await case.open()
    case.jobs, case.fleet = case.session.jobs, case.session.fleet
    try:
        ns = await connection.fetchval(f"SELECT id FROM {SCHEMA}.namespace WHERE name = $1", case.namespace)
        job = await case.add_and_claim(lease=LEASE)
        await connection.execute("BEGIN")
        yield Race(case, connection, ns), job
    finally:
        await connection.close()
        await case.session.close()


@pytest.mark.parametrize("before", [False, True], ids=["first beat", "later beat"])
async def test_a_reclaim_waits_for_a_heartbeat_under_way_and_leaves_what_it_prolonged(
    postgres_url: str, before: bool
) -> None:
    async with race(postgres_url) as (here, job):
        if before:
            await here.case.jobs.extend("ann", [extension(job)])
        here.case.advance(9)
        await here.begin_extend(job)
        here.case.advance(2)
        verdict = await here.commit_under(here.case.move("bob", reclaim(job, 5)))
        assert verdict is Verdict.REFUSED
        assert (await here.case.reload(job)).worker == "ann"


async def test_a_heartbeat_waits_for_a_reclaim_under_way_and_is_told_of_the_loss(postgres_url: str) -> None:
    async with race(postgres_url) as (here, job):
        here.case.advance(9)
        await here.begin_reclaim(job)
        told = await here.commit_under(here.case.jobs.extend("ann", [extension(job)]))
        assert told == [Held.LOST]


async def test_a_start_waits_for_a_reclaim_under_way_and_is_refused(postgres_url: str) -> None:
    async with race(postgres_url) as (here, job):
        here.case.advance(9)
        await here.begin_reclaim(job)
        assert await here.commit_under(here.case.move("ann", start(job, 0))) is Verdict.REFUSED
        found = await here.case.reload(job)
        assert (found.state, found.started) == (State.SCHEDULED, None)


async def test_a_start_and_a_heartbeat_at_once_lose_nothing(postgres_url: str) -> None:
    async with race(postgres_url) as (here, job):
        await here.begin_extend(job)
        assert await here.commit_under(here.case.move("ann", start(job, 0))) is Verdict.ACCEPTED
        await here.connection.execute("BEGIN")
        await here.begin_extend(job)
        await here.connection.execute("COMMIT")
        found = await here.case.reload(job)
        assert (found.state, found.version) == (State.RUNNING, job.version + 1)


def extension(job: JobRecord) -> Extension:
    return Extension(job=job.id, token=job.token, lease=LEASE)
