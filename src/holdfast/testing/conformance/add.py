"""Promises of `add`."""

import asyncio

from holdfast.model.lifecycle import State
from holdfast.model.records import JobRecord, as_added
from holdfast.model.timing import SECOND
from holdfast.testing.conformance.case import LONG, QUEUE, TASK, Case, Promises, ended, new_job, promise


class AddPromises(Promises):
    """What `add` stores and what it answers."""

    @promise
    async def test_a_new_job_is_scheduled_with_version_1_and_token_0(self, case: Case) -> None:
        job = new_job()
        [added] = await case.jobs.add([job])
        assert (added.created, added.conflict) == (True, None)
        now = added.record.created
        assert added.record == JobRecord(
            id=job.id,
            task=TASK,
            queue=QUEUE,
            payload=b"[1]",
            state=State.SCHEDULED,
            priority=0,
            due=now,
            created=now,
        )

    @promise
    async def test_every_field_of_a_new_job_is_kept(self, case: Case) -> None:
        job = new_job(
            priority=-3,
            delay=5 * SECOND,
            key="order-42",
            key_ttl=LONG,
            tags=("red", "blue"),
            lease=7 * SECOND,
            timeout=9 * SECOND,
            retry=b'{"type":"never"}',
            headers=b'{"trace":"1"}',
        )
        [added] = await case.jobs.add([job])
        stored = await case.reload(job.id)
        assert stored == added.record
        assert stored.due == stored.created + 5 * SECOND
        kept = ("priority", "key", "tags", "lease", "timeout", "retry", "headers")
        assert [getattr(stored, field) for field in kept] == [getattr(job, field) for field in kept]

    @promise
    async def test_fresh_jobs_are_stored_as_any_others(self, case: Case) -> None:
        plain = [new_job(fresh=True) for _ in range(3)]
        special = [
            new_job(fresh=True),
            new_job(fresh=True, task="other", queue="other", payload=b"", priority=7),
            new_job(fresh=True, due=12_345, tags=("red", "blue"), lease=7 * SECOND),
            new_job(fresh=True, delay=LONG, timeout=9 * SECOND, retry=b"r", headers=b"h"),
            new_job(fresh=True, key="order-42", key_ttl=LONG),
        ]
        for batch in (plain, special):
            answers = await case.jobs.add(batch)
            assert all(answer.created for answer in answers)
            assert [answer.record for answer in answers] == [
                as_added(job, answer.record.created) for job, answer in zip(batch, answers, strict=True)
            ]
            assert await case.jobs.states([job.id for job in batch]) == [answer.record for answer in answers]
        due = [*plain, special[0], special[2], special[4]]
        assert {job.id for job in await case.claim(limit=20)} == {job.id for job in due}

    @promise
    async def test_a_live_job_is_found_even_by_one_that_calls_itself_fresh(self, case: Case) -> None:
        stored = await case.add()
        first, second = await case.jobs.add([new_job(fresh=True), new_job(id=stored.id, fresh=True)])
        assert (first.created, second.created, second.record) == (True, False, stored)

    @promise
    async def test_a_due_instant_goes_before_a_delay(self, case: Case) -> None:
        assert (await case.add(due=12_345, delay=5 * SECOND)).due == 12_345

    @promise
    async def test_answers_are_in_the_order_of_the_jobs(self, case: Case) -> None:
        jobs = [new_job() for _ in range(5)]
        shuffled = [jobs[index] for index in (3, 0, 4, 1, 2)]
        answers = await case.jobs.add(shuffled)
        assert [answer.record.id for answer in answers] == [job.id for job in shuffled]

    @promise
    async def test_no_jobs_give_no_answers(self, case: Case) -> None:
        assert await case.jobs.add([]) == []

    @promise
    async def test_a_repeated_id_gives_the_stored_job(self, case: Case) -> None:
        job = new_job()
        [first] = await case.jobs.add([job])
        case.advance(1)
        [again] = await case.jobs.add([job])
        assert (again.created, again.conflict, again.record) == (False, None, first.record)

    @promise
    async def test_a_repeated_id_gives_the_stored_job_even_when_it_is_finished(self, case: Case) -> None:
        added = new_job()
        await case.jobs.add([added])
        await case.move("ann", ended(await case.claim_one()))
        [again] = await case.jobs.add([added])
        assert (again.created, again.conflict, again.record.state) == (False, None, State.SUCCESS)
        assert await case.claim() == []

    @promise
    async def test_a_repeated_id_with_other_work_is_a_conflict(self, case: Case) -> None:
        stored = await case.add()
        for change in ({"task": "other"}, {"queue": "other"}, {"payload": b"[2]"}):
            [answer] = await case.jobs.add([new_job(**{"id": stored.id, **change})])
            assert (answer.created, answer.conflict, answer.record) == (False, "id", stored), change

    @promise
    async def test_a_repeated_id_may_differ_in_what_is_not_the_work(self, case: Case) -> None:
        stored = await case.add()
        [answer] = await case.jobs.add([new_job(id=stored.id, priority=9, delay=LONG, tags=("x",))])
        assert (answer.created, answer.conflict, answer.record) == (False, None, stored)

    @promise
    async def test_a_batch_sees_its_own_ids(self, case: Case) -> None:
        job = new_job()
        first, second = await case.jobs.add([job, job])
        assert (first.created, second.created) == (True, False)
        assert second.record == first.record

    @promise
    async def test_the_answer_is_a_copy_that_cannot_change_the_store(self, case: Case) -> None:
        job = new_job()
        [added] = await case.jobs.add([job])
        added.record.state = State.SUCCESS
        added.record.payload = b"[666]"
        stored = await case.reload(job.id)
        assert (stored.state, stored.payload) == (State.SCHEDULED, b"[1]")

    @promise
    async def test_a_cancelled_add_is_done_whole_or_not_at_all(self, case: Case) -> None:
        for steps in range(4):
            batch = [new_job() for _ in range(20)]
            task = asyncio.ensure_future(case.jobs.add(batch))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            stored = await case.jobs.states([job.id for job in batch])
            assert len({record is None for record in stored}) == 1
            await case.jobs.add(batch)
            assert None not in await case.jobs.states([job.id for job in batch])
