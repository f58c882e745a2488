"""Promises of order: sequences, fair keys, and jobs that expire."""

from typing import Any

from holdfast.model.flow import STRIDE, LimitRecord, NewFlow, Scope
from holdfast.model.lifecycle import REPLAYED, RETRIED, RETURNED, Ending, State
from holdfast.model.records import Edit, JobRecord, NewJob
from holdfast.model.timing import SECOND
from holdfast.testing.conformance.case import QUEUE, Case, Promises, ended, new_job, promise, wanted

SEQUENCE = "account"


def in_sequence(sequence: str = SEQUENCE, halts: bool = False, **fields: Any) -> NewJob:
    return new_job(flow=NewFlow(sequence=sequence, halts=halts), **fields)


def fair(key: str, **fields: Any) -> NewJob:
    return new_job(flow=NewFlow(fair_key=key), **fields)


def names(jobs: list[JobRecord]) -> list[str]:
    return [job.id for job in jobs]


async def replay(case: Case, job: JobRecord) -> None:
    assert await case.jobs.edit(job.id, job.version, Edit(path=REPLAYED)) is not None


class SequencePromises(Promises):
    """Jobs that run one after the other."""

    @promise
    async def test_jobs_of_a_sequence_run_one_at_a_time_in_the_order_of_their_call(self, case: Case) -> None:
        jobs = [in_sequence() for _ in range(3)]
        # Neither ids nor priorities count.
        jobs = [jobs[2], jobs[0], jobs[1]]
        await case.jobs.add(jobs)
        await case.jobs.add([in_sequence(priority=-5), in_sequence("other")])
        first, other = await case.claim(limit=10)
        assert (first.id, other.flow and other.flow.sequence) == (jobs[0].id, "other")
        assert await case.claim("bob", limit=10) == []
        [second] = await case.finish(first, limit=10)
        [third] = await case.finish(second, limit=10)
        [last] = await case.finish(third, limit=10)
        assert [second.id, third.id, last.priority] == [jobs[1].id, jobs[2].id, -5]
        assert await case.finish(last, limit=10) == []

    @promise
    async def test_a_job_that_will_be_retried_or_is_not_due_keeps_its_place(self, case: Case) -> None:
        await case.jobs.add([in_sequence(), in_sequence(delay=4 * SECOND), in_sequence()])
        first = await case.claim_one()
        await case.move("ann", ended(first, RETRIED, Ending.RETRY, delay=2 * SECOND, failures=1))
        assert await case.claim(limit=10) == []
        case.advance(2)
        again = await case.claim_one()
        assert again.id == first.id
        await case.move("ann", ended(again, RETURNED, Ending.RELEASED))
        again = await case.claim_one()
        assert await case.finish(again, limit=10) == []
        case.advance(3)
        [second] = await case.claim(limit=10)
        assert second.due > again.due
        assert len(await case.finish(second, limit=10)) == 1

    @promise
    async def test_a_failed_job_lets_the_next_begin_unless_it_halts(self, case: Case) -> None:
        await case.jobs.add([in_sequence(), in_sequence(halts=True), in_sequence(), in_sequence()])
        await case.dead_letter(await case.claim_one())
        second = await case.claim_one()
        dead = await case.dead_letter(second)
        assert await case.claim(limit=10) == []
        await replay(case, dead)
        again = await case.claim_one()
        assert again.id == second.id
        [third] = await case.finish(again, limit=10)
        assert third.id != second.id
        assert await case.claim("bob", limit=10) == []

    @promise
    async def test_a_halt_ends_when_it_is_told_to_or_its_job_is_gone(self, case: Case) -> None:
        await case.jobs.add([in_sequence(halts=True) for _ in range(3)])
        dead = await case.dead_letter(await case.claim_one())
        assert await case.claim(limit=10) == []
        assert await case.flow.halted() == {SEQUENCE: dead.id}
        await case.flow.proceed(SEQUENCE)
        await case.flow.proceed(SEQUENCE)
        assert await case.flow.halted() == {}
        second = await case.claim_one()
        await case.dead_letter(second)
        assert await case.claim(limit=10) == []
        assert await case.jobs.delete(second.id)
        assert len(await case.claim(limit=10)) == 1

    @promise
    async def test_what_is_cancelled_or_deleted_gives_way(self, case: Case) -> None:
        added = [answer.record for answer in await case.jobs.add([in_sequence(halts=True) for _ in range(5)])]
        first = await case.claim_one()
        await case.cancel(added[1])
        assert await case.jobs.delete(added[2].id)
        [fourth] = await case.finish(first, limit=10)
        assert fourth.id == added[3].id

    @promise
    async def test_a_job_that_was_replayed_waits_for_one_that_is_leased(self, case: Case) -> None:
        added = [answer.record for answer in await case.jobs.add([in_sequence() for _ in range(3)])]
        dead = await case.dead_letter(await case.claim_one())
        second = await case.claim_one()
        await replay(case, dead)
        assert await case.claim("bob", limit=10) == []
        assert names(await case.finish(second, limit=10)) == [dead.id]
        assert await case.claim("bob", limit=10) == []
        assert names(await case.finish(await case.reload(dead), limit=10)) == [added[2].id]

    @promise
    async def test_what_waits_for_its_turn_says_so(self, case: Case) -> None:
        _, second = [answer.record for answer in await case.jobs.add([in_sequence(), in_sequence()])]
        await case.claim(limit=10)
        parked = await case.reload(second)
        assert parked.flow is not None
        assert parked.flow.parked == f"sequence:{SEQUENCE}"


class FairPromises(Promises):
    """Keys that share a queue."""

    @promise
    async def test_keys_take_turns_however_much_one_of_them_has(self, case: Case) -> None:
        await case.jobs.add([*(fair("big") for _ in range(6)), *(fair("small") for _ in range(2))])
        keys = [job.flow.fair_key for job in await case.claim(limit=10) if job.flow]
        assert keys == ["big", "small", "big", "small", "big", "big", "big", "big"]

    @promise
    async def test_a_key_that_comes_late_does_not_wait_for_what_others_have(self, case: Case) -> None:
        await case.jobs.add([fair("big") for _ in range(10)])
        assert len(await case.claim(limit=4)) == 4
        await case.jobs.add([fair("late"), fair("late")])
        keys = [job.flow.fair_key for job in await case.claim(limit=5) if job.flow]
        assert keys.count("late") == 2

    @promise
    async def test_a_key_with_weight_gets_so_much_more(self, case: Case) -> None:
        await case.flow.put([LimitRecord(scope=Scope.KEY, name="heavy", weight=3.0)])
        await case.jobs.add([*(fair("light") for _ in range(8)), *(fair("heavy") for _ in range(8))])
        keys = [job.flow.fair_key for job in await case.claim(limit=8) if job.flow]
        assert keys.count("heavy") == 6

    @promise
    async def test_work_of_the_past_is_not_held_against_a_key(self, case: Case) -> None:
        await case.jobs.add([fair("big") for _ in range(6)])
        for job in await case.claim(limit=6):
            await case.finish(job)
        await case.jobs.add([*(fair("other") for _ in range(3)), *(fair("big") for _ in range(3))])
        keys = [job.flow.fair_key for job in await case.claim(limit=6) if job.flow]
        assert keys[:2] != ["other", "other"]

    @promise
    async def test_priority_goes_before_fairness_and_queues_are_apart(self, case: Case) -> None:
        await case.jobs.add([fair("a"), fair("a"), fair("b", priority=1), fair("a", queue="other")])
        await case.register("ann")
        claimed = (await case.tick("ann", want=wanted(QUEUE, "other", limit=10))).claimed
        assert [job.priority for job in claimed] == [0, 0, 1, 0]
        ranks = [job.flow.rank for job in claimed if job.flow]
        assert ranks[3] == ranks[0]

    @promise
    async def test_ranks_are_a_stride_apart_and_stay_with_their_jobs(self, case: Case) -> None:
        added = [answer.record for answer in await case.jobs.add([fair("a") for _ in range(3)])]
        ranks = [job.flow.rank for job in added if job.flow and job.flow.rank is not None]
        assert ranks == [added[0].created + STRIDE * turn for turn in (1, 2, 3)]
        job = await case.claim_one()
        await case.move("ann", ended(job, RETRIED, Ending.RETRY, delay=0, failures=1))
        assert (await case.reload(job)).flow == added[0].flow
        assert (await case.claim_one()).id == added[0].id

    @promise
    async def test_who_stands_already_takes_no_turn_of_those_that_are_added(self, case: Case) -> None:
        first, second = fair("a"), fair("a")
        again = new_job(flow=NewFlow(fair_key="a"), key="k")
        [held, known] = await case.jobs.add([new_job(key="k"), first])
        answers = await case.jobs.add([first, again, second])
        assert [answer.created for answer in answers] == [False, False, True]
        assert [answers[0].record.id, answers[1].record.id] == [known.record.id, held.record.id]
        assert known.record.flow
        assert known.record.flow.rank is not None
        added = answers[2].record.flow
        assert added
        assert added.rank == known.record.flow.rank + STRIDE


class ExpiryPromises(Promises):
    """Jobs that are too late."""

    @promise
    async def test_what_was_not_claimed_in_time_is_told(self, case: Case) -> None:
        soon, later, claimed, due = [
            answer.record
            for answer in await case.jobs.add(
                [
                    new_job(flow=NewFlow(expires=2 * SECOND)),
                    new_job(flow=NewFlow(expires=8 * SECOND)),
                    new_job(flow=NewFlow(expires=SECOND), priority=-1),
                    new_job(flow=NewFlow(expires=SECOND), delay=5 * SECOND),
                ]
            )
        ]
        assert soon.flow is not None
        assert soon.flow.expires == soon.created + 2 * SECOND
        assert await case.flow.overdue(10) == []
        job = await case.claim_one()
        assert job.id == claimed.id
        await case.move("ann", ended(job, RETURNED, Ending.RELEASED))
        case.advance(2)
        assert await case.flow.overdue(10) == [due.id, soon.id]
        assert await case.flow.overdue(1) == [due.id]
        await case.cancel(due)
        assert await case.flow.overdue(10) == [soon.id]
        assert (await case.reload(later)).state is State.SCHEDULED
