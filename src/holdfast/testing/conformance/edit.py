"""Promises of `edit` and `delete`: changing, cancelling, replaying, removing."""

import asyncio

import pytest

from holdfast.model.lifecycle import (
    CANCELLED_RUNNING,
    DEAD_LETTERED,
    REPLAYED,
    RETRIED,
    RETURNED,
    STARTED,
    Ending,
    State,
)
from holdfast.model.records import Edit, JobRecord, Move, Verdict
from holdfast.model.timing import SECOND
from holdfast.testing.conformance.case import (
    LEASE,
    LONG,
    QUEUE,
    Case,
    Promises,
    ended,
    new_id,
    new_job,
    promise,
    wanted,
)

CANCELLED_WAITING = (State.SCHEDULED, State.CANCELLED)


async def dead_letter(case: Case) -> JobRecord:
    job = await case.add_and_claim()
    await case.move(
        "ann", ended(job, DEAD_LETTERED, Ending.FAILED, failures=4, lost=2, reason="r", error="e")
    )
    return await case.reload(job)


class EditPromises(Promises):
    """Edits are guarded by the version and by the state."""

    @promise
    async def test_an_edit_changes_what_is_given_and_nothing_else(self, case: Case) -> None:
        job = await case.add(priority=1, tags=("a",))
        edited = await case.jobs.edit(job.id, 1, Edit(priority=7))
        job.priority = 7
        job.version = 2
        assert edited == job
        assert await case.reload(job) == job

    @promise
    async def test_every_field_of_an_edit_is_applied(self, case: Case) -> None:
        job = await case.add()
        change = Edit(
            queue="other",
            priority=2,
            due=5_000,
            tags=("b",),
            failures=1,
            lost=2,
            suspect=True,
            reason="because",
        )
        edited = await case.jobs.edit(job.id, 1, change)
        assert edited is not None
        for field in ("queue", "priority", "due", "tags", "failures", "lost", "suspect", "reason"):
            assert getattr(edited, field) == getattr(change, field), field

    @promise
    async def test_an_edit_with_an_old_version_is_refused(self, case: Case) -> None:
        job = await case.add()
        edited = await case.jobs.edit(job.id, 1, Edit(priority=7))
        for version in (1, 3):
            assert await case.jobs.edit(job.id, version, Edit(priority=8)) is None
        assert await case.reload(job) == edited
        assert await case.jobs.edit(new_id(), 1, Edit(priority=8)) is None

    @promise
    async def test_of_two_concurrent_edits_one_wins(self, case: Case) -> None:
        job = await case.add()
        sessions = [await case.open() for _ in range(6)]
        answers = await asyncio.gather(
            *(session.jobs.edit(job.id, 1, Edit(priority=5)) for session in sessions)
        )
        assert [answer is None for answer in answers].count(False) == 1
        assert (await case.reload(job)).version == 2

    @promise
    async def test_claim_and_move_raise_the_version_so_that_an_edit_cannot_overwrite_them(
        self, case: Case
    ) -> None:
        job = await case.add_and_claim()
        assert await case.jobs.edit(job.id, 1, Edit(ask_cancel=True)) is None
        await case.move("ann", ended(job, RETURNED, Ending.RELEASED))
        assert await case.jobs.edit(job.id, job.version, Edit(priority=1)) is None
        assert await case.jobs.edit(job.id, job.version + 1, Edit(priority=1)) is not None

    @promise
    async def test_an_edited_job_is_served_by_its_new_queue_priority_and_due_time(self, case: Case) -> None:
        moved, first, later, sooner = [await case.add() for _ in range(4)]
        future = await case.add(delay=LONG)
        await case.jobs.edit(moved.id, 1, Edit(queue="other"))
        await case.jobs.edit(sooner.id, 1, Edit(priority=-1))
        await case.jobs.edit(later.id, 1, Edit(delay=LONG))
        await case.jobs.edit(future.id, 1, Edit(due=0))
        claimed = await case.claim(limit=10)
        assert [job.id for job in claimed] == [sooner.id, future.id, first.id]
        other = await case.tick("ann", want=wanted("other", limit=10))
        assert [job.id for job in other.claimed] == [moved.id]

    @promise
    async def test_a_delay_counts_from_the_stores_now_and_goes_after_an_instant(self, case: Case) -> None:
        job = await case.add()
        edited = await case.jobs.edit(job.id, 1, Edit(delay=50 * SECOND))
        assert edited is not None
        assert job.created + 50 * SECOND <= edited.due < job.created + 60 * SECOND
        edited = await case.jobs.edit(job.id, 2, Edit(delay=50 * SECOND, due=17))
        assert edited is not None
        assert edited.due == 17

    @promise
    async def test_waiting_and_dead_jobs_can_be_edited_and_no_others(self, case: Case) -> None:
        retry = await case.add_and_claim()
        await case.move("ann", ended(retry, RETRIED, Ending.RETRY, delay=LONG))
        dead = await dead_letter(case)
        for job_id in (retry.id, dead.id):
            stored = await case.reload(job_id)
            edited = await case.jobs.edit(job_id, stored.version, Edit(priority=5, tags=("t",)))
            assert edited is not None
            assert (edited.state, edited.priority, edited.tags) == (stored.state, 5, ("t",))
        done = await case.add_and_claim()
        claimed = await case.jobs.edit(done.id, done.version, Edit(priority=5))
        await case.move("ann", ended(done))
        finished = await case.jobs.edit(done.id, done.version + 1, Edit(priority=5))
        assert (claimed, finished) == (None, None)
        assert (await case.reload(done)).priority == 0

    @promise
    async def test_a_waiting_job_is_cancelled_at_once(self, case: Case) -> None:
        job = await case.add()
        edited = await case.jobs.edit(job.id, 1, Edit(path=CANCELLED_WAITING, reason="not needed"))
        assert edited is not None
        assert (edited.state, edited.reason, edited.version) == (State.CANCELLED, "not needed", 2)
        assert edited.finished is not None
        assert edited.finished >= job.created
        assert await case.claim() == []
        assert await case.jobs.history(job.id) == []

    @promise
    async def test_a_path_must_begin_where_the_job_stands(self, case: Case) -> None:
        job = await case.add()
        for path in (REPLAYED, (State.RETRY, State.CANCELLED), (State.FAILED, State.DLQ)):
            assert await case.jobs.edit(job.id, 1, Edit(path=path)) is None
        assert await case.reload(job) == job

    @promise
    async def test_asking_to_stop_reaches_the_holder_by_its_tick(self, case: Case) -> None:
        job = await case.add_and_claim("ann")
        await case.register("bob")
        asked = await case.jobs.edit(job.id, job.version, Edit(ask_cancel=True, priority=9))
        assert asked is not None
        assert (asked.state, asked.cancel_asked, asked.version) == (State.CLAIMED, True, job.version + 1)
        assert (asked.worker, asked.lease_until, asked.priority) == ("ann", job.lease_until, 0)
        assert (await case.tick("ann")).cancel_asked == [(job.id, job.token)]
        assert (await case.tick("bob")).cancel_asked == []
        ticked = await case.tick("ann", [ended(job, CANCELLED_RUNNING, Ending.CANCELLED)])
        assert (ticked.verdicts, ticked.cancel_asked) == ([Verdict.ACCEPTED], [])
        assert (await case.reload(job)).state is State.CANCELLED

    @promise
    async def test_a_success_that_arrives_first_wins_over_a_wish_to_stop(self, case: Case) -> None:
        job = await case.add_and_claim()
        await case.jobs.edit(job.id, job.version, Edit(ask_cancel=True))
        assert await case.move("ann", ended(job)) is Verdict.ACCEPTED
        assert (await case.reload(job)).state is State.SUCCESS

    @promise
    async def test_the_wish_to_stop_outlives_a_lost_attempt(self, case: Case) -> None:
        job = await case.add_and_claim("ann", lease=LEASE)
        await case.jobs.edit(job.id, job.version, Edit(ask_cancel=True))
        case.advance(2.5)
        await case.move("bob", ended(job, RETRIED, Ending.LOST, delay=0, if_expired=True))
        await case.register("bob")
        ticked = await case.tick("bob", want=wanted())
        assert [claimed.cancel_asked for claimed in ticked.claimed] == [True]
        assert ticked.cancel_asked == [(job.id, ticked.claimed[0].token)]
        assert (await case.tick("ann")).cancel_asked == []

    @promise
    async def test_only_a_leased_job_is_asked_to_stop(self, case: Case) -> None:
        job = await case.add()
        assert await case.jobs.edit(job.id, 1, Edit(ask_cancel=True)) is None
        assert await case.reload(job) == job

    @promise
    async def test_a_replayed_job_is_live_again_with_its_token_run_and_history(self, case: Case) -> None:
        dead = await dead_letter(case)
        history = await case.jobs.history(dead.id)
        replayed = await case.jobs.edit(
            dead.id, dead.version, Edit(path=REPLAYED, failures=0, lost=0, delay=0)
        )
        assert replayed is not None
        assert (replayed.state, replayed.failures, replayed.lost) == (State.SCHEDULED, 0, 0)
        assert (replayed.token, replayed.run) == (dead.token, 1)
        assert (replayed.finished, replayed.result) == (None, None)
        assert (replayed.reason, replayed.error) == ("r", "e")
        assert await case.jobs.history(dead.id) == history
        again = await case.claim_one()
        assert (again.id, again.run) == (dead.id, 2)
        await case.move("ann", ended(again))
        assert [attempt.run for attempt in await case.jobs.history(dead.id)] == [1, 2]

    @promise
    async def test_a_replay_takes_back_the_wish_to_stop(self, case: Case) -> None:
        job = await case.add_and_claim()
        await case.jobs.edit(job.id, job.version, Edit(ask_cancel=True))
        await case.move("ann", ended(job, DEAD_LETTERED, Ending.FAILED))
        dead = await case.reload(job)
        assert dead.cancel_asked
        replayed = await case.jobs.edit(job.id, dead.version, Edit(path=REPLAYED))
        assert replayed is not None
        assert not replayed.cancel_asked
        assert (await case.tick("ann", want=wanted())).cancel_asked == []

    @promise
    async def test_without_a_new_due_time_a_replayed_job_is_due_as_before(self, case: Case) -> None:
        dead = await dead_letter(case)
        replayed = await case.jobs.edit(dead.id, dead.version, Edit(path=REPLAYED))
        assert replayed is not None
        assert replayed.due == dead.due

    @pytest.mark.parametrize("is_started", [False, True])
    @promise
    async def test_a_leased_job_cannot_be_deleted(self, case: Case, is_started: bool) -> None:
        job = await case.add_and_claim()
        if is_started:
            await case.move("ann", Move(job=job.id, token=job.token, path=STARTED))
        assert not await case.jobs.delete(job.id)
        assert await case.move("ann", ended(job)) is Verdict.ACCEPTED

    @promise
    async def test_a_deleted_job_is_gone_with_its_history(self, case: Case) -> None:
        waiting = await case.add()
        finished = await case.add_and_claim(priority=-1)
        await case.move("ann", ended(finished))
        for job in (waiting, finished):
            assert await case.jobs.delete(job.id)
            assert await case.jobs.get(job.id) is None
            assert await case.jobs.history(job.id) == []
        assert await case.claim() == []
        assert await case.jobs.count() == []

    @promise
    async def test_deleting_what_is_not_there_is_done(self, case: Case) -> None:
        assert await case.jobs.delete(new_id())

    @promise
    async def test_an_id_that_was_deleted_can_be_added_anew(self, case: Case) -> None:
        job = await case.add_and_claim()
        await case.move("ann", ended(job))
        await case.jobs.delete(job.id)
        [added] = await case.jobs.add([new_job(id=job.id, queue="other", payload=b"[2]")])
        assert (added.created, added.record.run, added.record.token) == (True, 0, 0)
        assert await case.claim() == []
        ticked = await case.tick("ann", want=wanted(QUEUE, "other", limit=5))
        assert [claimed.queue for claimed in ticked.claimed] == ["other"]
        assert await case.jobs.history(job.id) == []
