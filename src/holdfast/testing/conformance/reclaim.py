"""Promises about expired leases: who finds them, who takes them back, what the late holder can still do."""

import asyncio
from typing import Any

from holdfast.model.lifecycle import DEAD_LETTERED, RETRIED, RETURNED, SUCCEEDED, Ending, State
from holdfast.model.records import Extension, Held, JobRecord, Move, Tick, Verdict
from holdfast.testing.conformance.case import LEASE, LONG, Case, Promises, ended, new_job, promise


def lost(job: JobRecord, **fields: Any) -> Move:
    told = {"delay": 0, "lost": job.lost + 1, "reason": "worker lost", **fields}
    return ended(job, RETRIED, Ending.LOST, if_expired=True, **told)


class ReclaimPromises(Promises):
    """Expired leases are found and taken back, once."""

    @promise
    async def test_expired_leases_are_found_oldest_first_up_to_the_limit(self, case: Case) -> None:
        await case.jobs.add([new_job(lease=lease) for lease in (LEASE, LEASE // 2, LONG)])
        jobs = await case.claim(limit=3)
        assert await case.jobs.expired(10) == []
        case.advance(2.5)
        assert await case.jobs.expired(10) == [jobs[1], jobs[0]]
        assert await case.jobs.expired(1) == [jobs[1]]
        assert await case.jobs.expired(10) == [jobs[1], jobs[0]]

    @promise
    async def test_an_expired_lease_can_be_taken_back_by_anybody(self, case: Case) -> None:
        job = await case.add_and_claim("ann", lease=LEASE)
        case.advance(2.5)
        assert await case.move("bob", lost(job, suspect=True)) is Verdict.ACCEPTED
        stored = await case.reload(job)
        assert (stored.state, stored.lost, stored.suspect, stored.worker) == (State.RETRY, 1, True, None)
        [attempt] = await case.jobs.history(job.id)
        assert (attempt.worker, attempt.outcome, attempt.reason) == ("ann", Ending.LOST, "worker lost")
        again = await case.claim_one("bob")
        assert again.token > job.token

    @promise
    async def test_an_unexpired_lease_cannot_be_taken_back(self, case: Case) -> None:
        job = await case.add_and_claim("ann")
        for worker in ("bob", "ann"):
            assert await case.move(worker, lost(job)) is Verdict.REFUSED
        assert await case.reload(job) == job
        assert await case.jobs.history(job.id) == []

    @promise
    async def test_a_lease_extended_in_the_meantime_cannot_be_taken_back(self, case: Case) -> None:
        job = await case.add_and_claim("ann", lease=LEASE)
        case.advance(1)
        await case.jobs.extend("ann", [Extension(job=job.id, token=job.token, lease=LONG)])
        case.advance(2)
        assert await case.move("bob", lost(job)) is Verdict.REFUSED

    @promise
    async def test_of_two_reclaimers_one_wins_and_the_other_is_refused(self, case: Case) -> None:
        job = await case.add_and_claim("ann", lease=LEASE)
        case.advance(2.5)
        sessions = [await case.open() for _ in range(2)]
        ticks = [Tick(worker=worker, seq=1, moves=[lost(job)]) for worker in ("bob", "cid")]
        answers = await asyncio.gather(
            *(session.jobs.tick(tick) for session, tick in zip(sessions, ticks, strict=True))
        )
        assert sorted(answer.verdicts[0] for answer in answers) == [Verdict.ACCEPTED, Verdict.REFUSED]
        assert len(await case.jobs.history(job.id)) == 1
        assert (await case.reload(job)).lost == 1

    @promise
    async def test_the_winners_repeat_is_accepted_and_the_losers_is_not(self, case: Case) -> None:
        job = await case.add_and_claim("ann", lease=LEASE)
        case.advance(2.5)
        await case.move("bob", lost(job))
        stored = await case.reload(job)
        assert await case.move("bob", lost(job)) is Verdict.ACCEPTED
        assert await case.move("cid", lost(job)) is Verdict.REFUSED
        assert await case.move("ann", lost(job)) is Verdict.REFUSED
        assert await case.reload(job) == stored
        assert [attempt.outcome for attempt in await case.jobs.history(job.id)] == [Ending.LOST]

    @promise
    async def test_a_reclaim_with_an_old_token_is_refused(self, case: Case) -> None:
        old = await case.add_and_claim("ann", lease=LEASE)
        case.advance(2.5)
        await case.move("bob", lost(old))
        current = await case.claim_one("bob", lease=LEASE)
        case.advance(2.5)
        assert await case.move("cid", lost(old)) is Verdict.REFUSED
        assert await case.reload(current) == current

    @promise
    async def test_a_late_end_is_refused_and_the_attempt_told_as_superseded(self, case: Case) -> None:
        job = await case.add_and_claim("ann", lease=LEASE)
        case.advance(2.5)
        await case.move("bob", lost(job))
        taken = await case.claim_one("bob")
        child = new_job()
        late = ended(job, result=b"[1]", children=(child,))
        for _ in range(2):
            assert await case.move("ann", late) is Verdict.REFUSED
        assert await case.reload(job) == taken
        assert await case.jobs.get(child.id) is None
        [attempt] = await case.jobs.history(job.id)
        assert (attempt.outcome, attempt.worker, attempt.reason) == (Ending.SUPERSEDED, "ann", "worker lost")
        assert await case.move("bob", lost(job)) is Verdict.ACCEPTED
        assert await case.move("bob", ended(taken)) is Verdict.ACCEPTED
        outcomes = [past.outcome for past in await case.jobs.history(job.id)]
        assert outcomes == [Ending.SUPERSEDED, Ending.SUCCESS]

    @promise
    async def test_only_the_attempts_own_late_end_makes_it_superseded(self, case: Case) -> None:
        job = await case.add_and_claim("ann", lease=LEASE)
        case.advance(2.5)
        await case.move("bob", lost(job))
        assert await case.move("cid", ended(job)) is Verdict.REFUSED
        start = Move(job=job.id, token=job.token, path=(State.CLAIMED, State.RUNNING), elapsed=0)
        assert await case.move("ann", start) is Verdict.REFUSED
        assert await case.move("ann", lost(job)) is Verdict.REFUSED
        assert await case.jobs.extend("ann", [Extension(job=job.id, token=job.token, lease=LONG)]) == [
            Held.LOST
        ]
        assert [attempt.outcome for attempt in await case.jobs.history(job.id)] == [Ending.LOST]

    @promise
    async def test_an_attempt_that_was_not_lost_never_becomes_superseded(self, case: Case) -> None:
        job = await case.add_and_claim("ann")
        await case.move("ann", ended(job, RETURNED, Ending.RELEASED))
        assert await case.move("ann", ended(job)) is Verdict.REFUSED
        assert [attempt.outcome for attempt in await case.jobs.history(job.id)] == [Ending.RELEASED]

    @promise
    async def test_a_reclaimed_job_may_end_in_the_dead_letter_queue(self, case: Case) -> None:
        job = await case.add_and_claim("ann", lease=LEASE)
        case.advance(2.5)
        move = ended(job, DEAD_LETTERED, Ending.LOST, if_expired=True, lost=5, reason="worker lost")
        assert await case.move("bob", move) is Verdict.ACCEPTED
        stored = await case.reload(job)
        assert (stored.state, stored.lost, stored.reason) == (State.DLQ, 5, "worker lost")
        assert await case.move("ann", ended(job)) is Verdict.REFUSED
        assert [attempt.outcome for attempt in await case.jobs.history(job.id)] == [Ending.SUPERSEDED]

    @promise
    async def test_the_holder_may_take_back_its_own_expired_lease(self, case: Case) -> None:
        job = await case.add_and_claim("ann", lease=LEASE)
        case.advance(2.5)
        assert await case.move("ann", lost(job)) is Verdict.ACCEPTED
        assert await case.move("ann", lost(job)) is Verdict.ACCEPTED
        assert [attempt.outcome for attempt in await case.jobs.history(job.id)] == [Ending.LOST]
        assert await case.move("ann", ended(job, SUCCEEDED)) is Verdict.REFUSED
        assert [attempt.outcome for attempt in await case.jobs.history(job.id)] == [Ending.SUPERSEDED]
