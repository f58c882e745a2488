"""Promises of `tick`: when a move is accepted, and what it then does."""

import pytest

from holdfast.model.lifecycle import (
    CANCELLED_RUNNING,
    DEAD_LETTERED,
    FAILED_FOR_GOOD,
    RELEASED_AT_ONCE,
    RETRIED,
    RETURNED,
    STARTED,
    SUCCEEDED,
    Ending,
    Path,
    State,
)
from holdfast.model.records import AttemptRecord, JobRecord, Move, Verdict
from holdfast.model.timing import SECOND
from holdfast.testing.conformance.case import LEASE, LONG, Case, Promises, ended, new_job, promise, wanted

ENDINGS = [
    (SUCCEEDED, Ending.SUCCESS),
    (RETRIED, Ending.RETRY),
    (RELEASED_AT_ONCE, Ending.RETRY),
    (DEAD_LETTERED, Ending.FAILED),
    (FAILED_FOR_GOOD, Ending.FAILED),
    (RETURNED, Ending.RELEASED),
    (CANCELLED_RUNNING, Ending.CANCELLED),
]


def start(job: JobRecord, elapsed: int | None = 0) -> Move:
    return Move(job=job.id, token=job.token, path=STARTED, elapsed=elapsed)


class MovePromises(Promises):
    """What a move does, and when it is refused."""

    @pytest.mark.parametrize(("path", "outcome"), ENDINGS)
    @promise
    async def test_a_move_that_ends_the_attempt_is_written_to_job_and_history(
        self, case: Case, path: Path, outcome: Ending
    ) -> None:
        job = await case.add_and_claim()
        move = ended(
            job, path, outcome, elapsed=0, failures=3, lost=2, suspect=True, reason="why", error="trace"
        )
        assert await case.move("ann", move) is Verdict.ACCEPTED
        stored = await case.reload(job)
        assert stored.state is path[-1]
        assert (stored.failures, stored.lost, stored.suspect) == (3, 2, True)
        assert (stored.reason, stored.error) == ("why", "trace")
        assert (stored.worker, stored.lease_until) == (None, None)
        assert (stored.version, stored.run, stored.token) == (job.version + 1, 1, job.token)
        [attempt] = await case.jobs.history(job.id)
        assert attempt == AttemptRecord(
            job=job.id,
            run=1,
            token=job.token,
            worker="ann",
            started=stored.started,
            finished=attempt.finished,
            outcome=outcome,
            reason="why",
            error="trace",
        )
        assert stored.finished == (
            attempt.finished if path[-1] not in (State.SCHEDULED, State.RETRY) else None
        )

    @promise
    async def test_a_start_that_was_never_sent_is_folded_into_the_end(self, case: Case) -> None:
        job = await case.add_and_claim()
        case.advance(1)
        await case.move("ann", ended(job, elapsed=300_000, result=b"[3]"))
        stored = await case.reload(job)
        [attempt] = await case.jobs.history(job.id)
        assert stored.result == b"[3]"
        assert stored.started == attempt.started == attempt.finished - 300_000

    @promise
    async def test_an_attempt_that_never_started_has_no_start(self, case: Case) -> None:
        job = await case.add_and_claim()
        await case.move("ann", ended(job, RETURNED, Ending.RELEASED))
        [attempt] = await case.jobs.history(job.id)
        assert attempt.started is None
        assert (await case.reload(job)).started is None

    @promise
    async def test_a_start_shows_the_job_running_and_keeps_the_lease(self, case: Case) -> None:
        job = await case.add_and_claim()
        assert await case.move("ann", start(job, elapsed=100)) is Verdict.ACCEPTED
        stored = await case.reload(job)
        assert (stored.state, stored.version) == (State.RUNNING, job.version + 1)
        assert (stored.worker, stored.lease_until, stored.token) == ("ann", job.lease_until, job.token)
        assert stored.started is not None
        assert await case.jobs.history(job.id) == []

    @promise
    async def test_the_first_start_that_was_recorded_stands(self, case: Case) -> None:
        job = await case.add_and_claim()
        await case.move("ann", start(job))
        started = (await case.reload(job)).started
        case.advance(1)
        await case.move("ann", ended(job, elapsed=10))
        [attempt] = await case.jobs.history(job.id)
        assert attempt.started == started
        assert (await case.reload(job)).started == started

    @promise
    async def test_a_start_that_stands_is_accepted_and_changes_nothing(self, case: Case) -> None:
        job = await case.add_and_claim()
        await case.move("ann", start(job))
        stored = await case.reload(job)
        case.advance(1)
        assert await case.move("ann", start(job)) is Verdict.ACCEPTED
        assert await case.move("bob", start(job)) is Verdict.REFUSED
        assert await case.reload(job) == stored

    @promise
    async def test_a_start_is_refused_once_the_lease_expired(self, case: Case) -> None:
        job = await case.add_and_claim(lease=LEASE)
        case.advance(2.5)
        assert await case.move("ann", start(job)) is Verdict.REFUSED
        assert (await case.reload(job)).state is State.CLAIMED

    @promise
    async def test_an_end_is_accepted_after_the_lease_expired_if_nobody_took_the_job(
        self, case: Case
    ) -> None:
        job = await case.add_and_claim(lease=LEASE)
        case.advance(2.5)
        assert await case.move("ann", ended(job)) is Verdict.ACCEPTED
        assert (await case.reload(job)).state is State.SUCCESS

    @pytest.mark.parametrize(("path", "outcome"), [*ENDINGS, (STARTED, None)])
    @promise
    async def test_an_old_token_is_refused_and_changes_nothing(
        self, case: Case, path: Path, outcome: Ending | None
    ) -> None:
        old = await case.add_and_claim()
        await case.move("ann", ended(old, RETURNED, Ending.RELEASED, delay=0))
        if outcome is Ending.RELEASED:
            outcome = Ending.SUPERSEDED
        current = await case.claim_one()
        history = await case.jobs.history(old.id)
        move = Move(job=old.id, token=old.token, path=path, outcome=outcome, children=(new_job(priority=9),))
        assert await case.move("ann", move) is Verdict.REFUSED
        assert await case.reload(current) == current
        assert await case.jobs.history(old.id) == history
        assert await case.claim() == []

    @pytest.mark.parametrize("wrong", [-1, 1])
    @promise
    async def test_a_token_that_was_never_given_is_refused(self, case: Case, wrong: int) -> None:
        job = await case.add_and_claim()
        move = Move(job=job.id, token=job.token + wrong, path=SUCCEEDED, outcome=Ending.SUCCESS)
        assert await case.move("ann", move) is Verdict.REFUSED
        assert await case.reload(job) == job

    @promise
    async def test_the_right_token_from_the_wrong_worker_is_refused(self, case: Case) -> None:
        job = await case.add_and_claim("ann")
        await case.register("bob")
        assert await case.move("bob", ended(job)) is Verdict.REFUSED
        assert await case.move("bob", start(job)) is Verdict.REFUSED
        assert await case.reload(job) == job

    @promise
    async def test_a_move_of_an_unknown_job_is_refused(self, case: Case) -> None:
        job = await case.add_and_claim()
        await case.move("ann", ended(job))
        await case.jobs.delete(job.id)
        assert await case.move("ann", ended(job)) is Verdict.REFUSED

    @promise
    async def test_a_refused_move_does_not_touch_the_others(self, case: Case) -> None:
        await case.jobs.add([new_job() for _ in range(3)])
        first, second, third = await case.claim(limit=3)
        second.token += 1
        ticked = await case.tick("ann", [ended(first), ended(second), ended(third)])
        assert ticked.verdicts == [Verdict.ACCEPTED, Verdict.REFUSED, Verdict.ACCEPTED]
        stored = await case.jobs.states([first.id, second.id, third.id])
        assert [job and job.state for job in stored] == [State.SUCCESS, State.CLAIMED, State.SUCCESS]

    @promise
    async def test_moves_are_applied_in_order(self, case: Case) -> None:
        job = await case.add_and_claim()
        ticked = await case.tick("ann", [start(job), ended(job), start(job)])
        assert ticked.verdicts == [Verdict.ACCEPTED, Verdict.ACCEPTED, Verdict.REFUSED]
        assert (await case.reload(job)).version == job.version + 2

    @promise
    async def test_moves_come_before_the_claim(self, case: Case) -> None:
        job = await case.add_and_claim()
        ticked = await case.tick("ann", [ended(job, RETURNED, Ending.RELEASED)], wanted())
        assert [claimed.id for claimed in ticked.claimed] == [job.id]
        assert ticked.claimed[0].run == 2

    @promise
    async def test_a_delay_counts_from_the_stores_now(self, case: Case) -> None:
        job = await case.add_and_claim()
        await case.move("ann", ended(job, RETRIED, Ending.RETRY, delay=2 * SECOND))
        [attempt] = await case.jobs.history(job.id)
        assert (await case.reload(job)).due == attempt.finished + 2 * SECOND
        assert await case.claim() == []
        case.advance(2.5)
        again = await case.claim_one()
        assert (again.id, again.state) == (job.id, State.CLAIMED)

    @promise
    async def test_without_a_delay_the_due_time_stays(self, case: Case) -> None:
        job = await case.add_and_claim(due=1_000)
        await case.move("ann", ended(job, RELEASED_AT_ONCE, Ending.RETRY))
        assert (await case.reload(job)).due == 1_000

    @promise
    async def test_a_long_run_of_attempts_is_told_oldest_first(self, case: Case) -> None:
        job = await case.add()
        for failures in range(1, 6):
            held = await case.claim_one()
            await case.move("ann", ended(held, RETRIED, Ending.RETRY, delay=0, failures=failures, lost=0))
        history = await case.jobs.history(job.id)
        assert [attempt.run for attempt in history] == [1, 2, 3, 4, 5]
        assert (await case.reload(job)).failures == 5

    @promise
    async def test_a_lease_longer_than_needed_does_not_outlive_the_end(self, case: Case) -> None:
        job = await case.add_and_claim(lease=LONG)
        await case.move("ann", ended(job))
        assert await case.jobs.expired(10) == []
        assert await case.claim("bob") == []
