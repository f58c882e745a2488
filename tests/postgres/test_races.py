"""Two calls about one job, id or key at the same moment: whoever is second waits, or is told what is."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import asyncpg
import msgspec
import pytest

from holdfast.model.errors import StoreUnavailable
from holdfast.model.lifecycle import DEAD_LETTERED, SUCCEEDED, Ending, State
from holdfast.model.outcome import reclaim
from holdfast.model.records import Added, JobRecord, Move, NewJob, Verdict
from holdfast.stores.postgres.moving import as_dict
from holdfast.testing import ManualClock
from holdfast.testing.conformance import Subject
from holdfast.testing.conformance.case import Case, ended, new_job
from tests.chaos.waiting import until_async
from tests.postgres.support import place

T = TypeVar("T")

SCHEMA = "meetings"
HOUR = 3_600_000_000
WAITING = """SELECT count(*) FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND datname = current_database()"""


class Meeting:
    """A namespace, and somebody else's connection with a transaction that stays open for a while."""

    def __init__(self, case: Case, connection: Any, ns: int) -> None:
        self.case = case
        self.connection = connection
        self.ns = ns

    async def begin(self, isolation: str = "READ COMMITTED") -> None:
        await self.connection.execute(f"BEGIN ISOLATION LEVEL {isolation}")
        await self.connection.execute("SELECT 1")

    async def commit(self) -> None:
        await self.connection.execute("COMMIT")

    async def add(self, *jobs: NewJob) -> list[Added]:
        """Adds as part of the open transaction."""
        return await self.case.store.transactions.add_in(  # type: ignore[union-attr]
            self.connection, self.case.namespace, jobs
        )

    async def replay(self, job: JobRecord) -> None:
        edit = {"job": job.id, "version": job.version, "from": [6], "to": 0, "ask_cancel": False}
        sql = f"SELECT {SCHEMA}.edit_v1($1, $2, NULL)"
        assert await self.connection.fetchval(sql, self.ns, msgspec.json.encode(edit).decode())

    async def move(self, worker: str, move: Move) -> None:
        sql = f"SELECT {SCHEMA}.move_v1($1, $2, {SCHEMA}.now_v1(), $3)"
        sent = msgspec.json.encode(as_dict(move)).decode()
        assert await self.connection.fetchval(sql, self.ns, worker, sent)

    async def commit_under(self, call: Awaitable[T]) -> T:
        """Commits the open transaction once the call waits for it; what the call then gives."""
        async with asyncio.timeout(10):
            waiting = asyncio.ensure_future(call)
            await self.until_waiting(waiting)
            await self.commit()
            return await waiting

    async def until_waiting(self, call: asyncio.Future[T]) -> None:
        await until_async(lambda: self.connection.fetchval(WAITING), "it waits")
        assert not call.done()

    async def live(self, key: str) -> list[str]:
        """The live jobs that have the key."""
        sql = f"SELECT id::text FROM {SCHEMA}.job WHERE ns = $1 AND key = $2"
        return [row[0] for row in await self.connection.fetch(sql, self.ns, key)]


@asynccontextmanager
async def meet(url: str) -> AsyncGenerator[Meeting]:
    clock = ManualClock()
    case = Case(Subject(place(url, SCHEMA).clocked(clock), clock.advance))
    connection = await asyncpg.connect(url)
    case.session = await case.open()
    case.jobs, case.fleet = case.session.jobs, case.session.fleet
    try:
        ns = await connection.fetchval(f"SELECT id FROM {SCHEMA}.namespace WHERE name = $1", case.namespace)
        yield Meeting(case, connection, ns)
    finally:
        await connection.close()
        await case.session.close()
        await case.store.close()


async def dead_lettered(case: Case, **fields: Any) -> JobRecord:
    job = await case.add_and_claim(**fields)
    assert await case.move("ann", ended(job, DEAD_LETTERED, Ending.FAILED)) is Verdict.ACCEPTED
    return await case.reload(job)


async def test_a_key_that_a_replay_is_just_taking_again_is_given_to_nobody_else(postgres_url: str) -> None:
    async with meet(postgres_url) as meeting:
        case = meeting.case
        job = await dead_lettered(case, key="k", key_ttl=HOUR)
        case.advance(2 * 3600)
        await meeting.begin()
        await meeting.replay(job)
        [added] = await meeting.commit_under(case.jobs.add([new_job(key="k")]))
        assert added.record.id == job.id
        assert await meeting.live("k") == [job.id]


async def test_a_job_that_was_made_and_done_since_an_old_snapshot_is_not_made_again(
    postgres_url: str,
) -> None:
    async with meet(postgres_url) as meeting:
        case = meeting.case
        stood = new_job()
        await case.jobs.add([stood])
        await case.claim()
        await meeting.begin("REPEATABLE READ")
        await meeting.connection.fetchval(f"SELECT count(*) FROM {SCHEMA}.job")
        job = new_job()
        await case.jobs.add([job])
        assert await case.move("ann", ended(await case.claim_one())) is Verdict.ACCEPTED
        with pytest.raises(Exception, match="from its start"):
            await meeting.add(stood, job)
        await meeting.connection.execute("ROLLBACK")
        assert (await case.reload(job.id)).state is State.SUCCESS


async def test_a_key_that_is_found_taken_in_an_open_transaction_does_not_keep_its_job_from_ending(
    postgres_url: str,
) -> None:
    async with meet(postgres_url) as meeting:
        case = meeting.case
        job = await case.add_and_claim(key="k")
        await meeting.begin()
        [added] = await meeting.add(new_job(key="k"))
        assert added.record.id == job.id
        assert await case.move("ann", ended(job)) is Verdict.ACCEPTED
        [added] = await case.jobs.add([new_job(key="k")])
        assert added.created
        await meeting.commit()


async def test_what_is_added_again_while_it_is_pruned_stays(postgres_url: str) -> None:
    async with meet(postgres_url) as meeting:
        case = meeting.case
        job = await case.add_and_claim()
        assert await case.move("ann", ended(job)) is Verdict.ACCEPTED
        case.advance(10)
        await meeting.begin()
        await meeting.connection.execute(
            f"LOCK TABLE {SCHEMA}.job, {SCHEMA}.done IN SHARE ROW EXCLUSIVE MODE"
        )
        pruning = asyncio.ensure_future(case.jobs.prune(5_000_000, 10))
        await meeting.until_waiting(pruning)
        await meeting.connection.execute(f"SELECT {SCHEMA}.forget_v1({meeting.ns}, '{{{job.id}}}')")
        [added] = await meeting.add(new_job(id=job.id))
        assert added.created
        await meeting.commit()
        assert await pruning == 0
        assert (await case.reload(job)).state is State.SCHEDULED


async def test_a_job_that_ends_while_it_is_deleted_is_gone_or_stays_whole(postgres_url: str) -> None:
    async with meet(postgres_url) as meeting:
        case = meeting.case
        job = await case.add_and_claim()
        await meeting.begin()
        await meeting.connection.execute(f"LOCK TABLE {SCHEMA}.done IN SHARE ROW EXCLUSIVE MODE")
        deleting = asyncio.ensure_future(case.jobs.delete(job.id))
        await meeting.until_waiting(deleting)
        await meeting.move("ann", ended(job))
        await meeting.commit()
        is_gone = await deleting
        assert is_gone is (await case.jobs.get(job.id) is None)
        assert is_gone is (await case.jobs.history(job.id) == [])


async def test_a_job_that_is_replayed_while_it_is_deleted_is_gone(postgres_url: str) -> None:
    async with meet(postgres_url) as meeting:
        job = await dead_lettered(meeting.case)
        await meeting.begin()
        await meeting.replay(job)
        assert await meeting.commit_under(meeting.case.jobs.delete(job.id))
        assert await meeting.case.jobs.get(job.id) is None


async def test_a_completion_that_waits_for_a_reclaim_is_refused_and_ends_nobody_elses_attempt(
    postgres_url: str,
) -> None:
    async with meet(postgres_url) as meeting:
        case = meeting.case
        job = await case.add_and_claim(lease=1_000_000)
        case.advance(2)
        await meeting.begin()
        await meeting.move("bob", reclaim(job, 5))
        assert await meeting.commit_under(case.move("ann", ended(job))) is Verdict.REFUSED
        assert (await case.reload(job)).state is State.SCHEDULED
        assert [attempt.outcome for attempt in await case.jobs.history(job.id)] == [Ending.SUPERSEDED]


async def test_a_wish_to_cancel_that_a_completion_waits_for_is_told(postgres_url: str) -> None:
    async with meet(postgres_url) as meeting:
        case = meeting.case
        job = await case.add_and_claim()
        await meeting.begin()
        wish = {"job": job.id, "version": job.version, "from": [], "ask_cancel": True}
        await meeting.connection.fetchval(
            f"SELECT {SCHEMA}.edit_v1($1, $2, NULL)", meeting.ns, msgspec.json.encode(wish).decode()
        )
        assert await meeting.commit_under(case.move("ann", ended(job))) is Verdict.ACCEPTED
        found = await case.reload(job)
        assert (found.cancel_asked, found.version) == (True, job.version + 2)


@pytest.mark.parametrize("results", [[b"1", b"1", b"1"], [b"1", b"2", None], [None, None, None]])
async def test_completed_jobs_have_their_own_results_also_beside_one_that_is_locked(
    postgres_url: str, results: list[bytes | None]
) -> None:
    async with meet(postgres_url) as meeting:
        case = meeting.case
        for _ in results:
            await case.add()
        jobs = await case.claim(limit=len(results))
        ends = [ended(job, result=result) for job, result in zip(jobs, results, strict=True)]
        await meeting.begin()
        lock = f"SELECT FROM {SCHEMA}.job WHERE ns = $1 AND id = $2 FOR UPDATE"
        await meeting.connection.execute(lock, meeting.ns, jobs[0].id)
        told = await case.tick("ann", ends)
        await meeting.commit()
        assert told.verdicts == [Verdict.REFUSED, Verdict.ACCEPTED, Verdict.ACCEPTED]
        assert (await case.tick("ann", ends)).verdicts == [Verdict.ACCEPTED] * 3
        assert [(await case.reload(job)).result for job in jobs] == results


@pytest.mark.parametrize(("path", "outcome"), [(SUCCEEDED, Ending.SUCCESS), (DEAD_LETTERED, Ending.FAILED)])
@pytest.mark.parametrize("table", ["job", "done", "tally"])
async def test_while_a_whole_table_is_locked_nobody_is_refused(
    postgres_url: str, table: str, path: tuple[State, ...], outcome: Ending
) -> None:
    async with meet(postgres_url) as meeting:
        case = meeting.case
        for _ in range(2):
            await case.add()
        ends = [ended(job, path, outcome) for job in await case.claim(limit=2)]
        await meeting.begin()
        # As CREATE INDEX does.
        await meeting.connection.execute(f"LOCK TABLE {SCHEMA}.{table} IN SHARE MODE")
        with pytest.raises(StoreUnavailable):
            await case.tick("ann", ends)
        await meeting.commit()
        assert (await case.tick("ann", ends)).verdicts == [Verdict.ACCEPTED] * 2
