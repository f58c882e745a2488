"""Promises of jobs that wait for jobs."""

from typing import Any

from holdfast.model.flow import AFTER, Awaited, NewFlow
from holdfast.model.lifecycle import FAILED_FOR_GOOD, REPLAYED, RETRIED, Ending, State
from holdfast.model.records import Edit, JobRecord, NewJob
from holdfast.model.timing import SECOND
from holdfast.testing.conformance.case import Case, Promises, ended, new_id, new_job, promise


def after(*jobs: JobRecord | str, any_will_do: bool = False, **fields: Any) -> NewJob:
    ids = tuple(job if isinstance(job, str) else job.id for job in jobs)
    return new_job(flow=NewFlow(after=ids, after_any=any_will_do), **fields)


async def add(case: Case, job: NewJob) -> JobRecord:
    [added] = await case.jobs.add([job])
    assert added.created
    return added.record


async def parked(case: Case, job: JobRecord) -> str | None:
    flow = (await case.reload(job)).flow
    return None if flow is None else flow.parked


async def unmet(case: Case, job: JobRecord) -> int:
    flow = (await case.reload(job)).flow
    return 0 if flow is None else flow.unmet


class LinkPromises(Promises):
    """Which jobs wait for which, and how long."""

    @promise
    async def test_a_job_waits_until_all_before_it_have_succeeded(self, case: Case) -> None:
        first, second = await case.add(), await case.add()
        waiting = await add(case, after(first, second, priority=-5))
        assert await parked(case, waiting) == AFTER
        one, two = await case.claim(limit=10)
        assert await case.finish(one, limit=10) == []
        assert await case.flow.awaited(waiting.id) == Awaited(total=2, pending=1, unmet=0, held=False)
        [job] = await case.finish(two, limit=10)
        assert job.id == waiting.id
        assert await unmet(case, waiting) == 0
        assert await case.flow.before(waiting.id, None, 10) == [
            (first.id, State.SUCCESS),
            (second.id, State.SUCCESS),
        ]

    @promise
    async def test_what_is_finished_or_not_stored_is_not_waited_for(self, case: Case) -> None:
        done = await case.add_and_claim()
        await case.finish(done)
        absent = new_id()
        ready = await add(case, after(done))
        lonely = await add(case, after(done, absent))
        assert [job.id for job in await case.claim(limit=10)] == [ready.id, lonely.id]
        assert [await unmet(case, job) for job in (ready, lonely)] == [0, 1]
        assert await case.flow.before(lonely.id, done.id, 10) == [(absent, State.CANCELLED)]
        assert await case.flow.awaited(absent) is None

    @promise
    async def test_a_job_that_ends_without_success_counts_as_unmet(self, case: Case) -> None:
        failed, cancelled, deleted = await case.add(), await case.add(), await case.add()
        waiting = await add(case, after(failed, cancelled, deleted))
        job = await case.claim_one()
        await case.cancel(cancelled)
        assert await case.jobs.delete(deleted.id)
        await case.move("ann", ended(job, FAILED_FOR_GOOD, Ending.FAILED, failures=1))
        assert await parked(case, waiting) is None
        assert await unmet(case, waiting) == 3

    @promise
    async def test_a_dead_job_is_waited_for_until_it_is_replayed_or_discarded(self, case: Case) -> None:
        one, two = await case.add(), await case.add()
        waiting = await add(case, after(one, two))
        held = await case.claim(limit=2)
        dead = [await case.dead_letter(job) for job in held]
        assert await parked(case, waiting) == AFTER
        assert await case.jobs.edit(one.id, dead[0].version, Edit(path=REPLAYED)) is not None
        again = await case.claim_one()
        assert await case.finish(again, limit=10) == []
        assert await case.jobs.delete(two.id)
        assert await unmet(case, waiting) == 1
        assert (await case.claim_one()).id == waiting.id

    @promise
    async def test_after_any_end_also_the_dead_letter_queue_will_do(self, case: Case) -> None:
        one, two = await case.add(), await case.add()
        waiting = await add(case, after(one, two, any_will_do=True))
        held = await case.claim(limit=2)
        await case.dead_letter(held[0])
        [job] = await case.finish(held[1], limit=10)
        assert (job.id, job.flow and job.flow.unmet) == (waiting.id, 1)

    @promise
    async def test_a_retry_is_no_end(self, case: Case) -> None:
        first = await case.add()
        waiting = await add(case, after(first))
        job = await case.claim_one()
        await case.move("ann", ended(job, RETRIED, Ending.RETRY, delay=0, failures=1))
        assert await parked(case, waiting) == AFTER
        await case.finish(await case.claim_one())
        assert (await case.claim_one()).id == waiting.id

    @promise
    async def test_a_waiting_job_keeps_its_due_time(self, case: Case) -> None:
        first = await case.add_and_claim()
        waiting = await add(case, after(first, delay=3 * SECOND))
        await case.finish(first)
        assert await case.claim() == []
        case.advance(3)
        assert (await case.claim_one()).id == waiting.id

    @promise
    async def test_jobs_of_one_call_may_wait_for_each_other(self, case: Case) -> None:
        first = new_job()
        second = after(first.id)
        third = after(first.id, second.id)
        await case.jobs.add([first, second, third])
        for expected in (first, second, third):
            [job] = await case.claim(limit=10)
            assert job.id == expected.id
            await case.finish(job)

    @promise
    async def test_a_job_that_comes_later_in_the_call_is_not_stored_yet(self, case: Case) -> None:
        second = new_id()
        first = after(second)
        await case.jobs.add([first, after(first.id, id=second)])
        [job] = await case.claim(limit=10)
        assert (job.id, job.flow and job.flow.unmet) == (first.id, 1)
        assert [job.id for job in await case.finish(job, limit=10)] == [second]

    @promise
    async def test_a_job_that_is_held_waits_until_it_is_released(self, case: Case) -> None:
        closing = await add(case, new_job(flow=NewFlow(held=True, after_any=True)))
        assert await case.claim() == []
        assert await case.flow.awaited(closing.id) == Awaited(total=0, pending=0, unmet=0, held=True)
        assert await case.flow.release(closing.id)
        assert await case.flow.release(closing.id)
        assert (await case.claim_one()).id == closing.id
        assert not await case.flow.release(new_id())

    @promise
    async def test_those_that_are_held_are_told_as_long_as_they_wait(self, case: Case) -> None:
        await case.add()
        jobs = [await add(case, new_job(flow=NewFlow(held=True, after_any=True))) for _ in range(5)]
        ids = sorted(job.id for job in jobs)
        assert await case.flow.held(None, 10) == ids
        assert await case.flow.held(ids[1], 2) == ids[2:4]
        # Whether it waits for others as well makes no difference.
        before = await add(case, new_job(flow=NewFlow(before=ids[1])))
        await case.flow.release(ids[0])
        await case.flow.release(ids[1])
        assert await case.flow.held(None, 10) == ids[2:]
        await case.jobs.delete(ids[2])
        [cancelled] = [job for job in jobs if job.id == ids[3]]
        await case.cancel(cancelled)
        assert await case.flow.held(None, 10) == ids[4:]
        assert before.id not in ids

    @promise
    async def test_a_new_job_can_be_put_before_one_that_still_waits(self, case: Case) -> None:
        closing = await add(case, new_job(flow=NewFlow(held=True, after_any=True)))
        jobs = [await add(case, new_job(flow=NewFlow(before=closing.id))) for _ in range(3)]
        held = await case.claim(limit=10)
        assert [job.id for job in held] == [job.id for job in jobs]
        await case.dead_letter(held[0])
        await case.finish(held[1])
        await case.flow.release(closing.id)
        # One of them brings another along.
        child = new_job(flow=NewFlow(before=closing.id))
        await case.tick("ann", [ended(held[2], children=(child,))])
        assert await case.flow.awaited(closing.id) == Awaited(total=4, pending=1, unmet=1, held=False)
        last = await case.claim_one()
        assert last.id == child.id
        [job] = await case.finish(last, limit=10)
        assert (job.id, job.flow and job.flow.unmet) == (closing.id, 1)
        late = await add(case, new_job(flow=NewFlow(before=closing.id)))
        assert (await case.claim_one()).id == late.id
        assert await case.flow.awaited(closing.id) == Awaited(total=4, pending=0, unmet=1, held=False)

    @promise
    async def test_a_waiting_job_can_be_edited_cancelled_and_deleted(self, case: Case) -> None:
        first = await case.add_and_claim()
        jobs = [await add(case, after(first)) for _ in range(3)]
        edited = await case.jobs.edit(jobs[0].id, 1, Edit(priority=3))
        assert edited is not None
        assert await parked(case, jobs[0]) == AFTER
        await case.cancel(jobs[1])
        assert await case.jobs.delete(jobs[2].id)
        [job] = await case.finish(first, limit=10)
        assert (job.id, job.priority) == (jobs[0].id, 3)

    @promise
    async def test_the_jobs_before_one_come_in_pages(self, case: Case) -> None:
        jobs = [await case.add() for _ in range(5)]
        waiting = await add(case, after(*jobs))
        first = await case.flow.before(waiting.id, None, 3)
        rest = await case.flow.before(waiting.id, first[-1][0], 3)
        assert [*first, *rest] == [(job.id, None) for job in jobs]
