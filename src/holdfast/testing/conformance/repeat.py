"""Promises about repeats: what is sent again gives the first answer."""

from holdfast.model.lifecycle import RETURNED, SUCCEEDED, Ending, State
from holdfast.model.records import Extension, Held, JobRecord, Move, Verdict
from holdfast.testing.conformance.case import LONG, Case, Promises, ended, new_job, promise, wanted


class RepeatPromises(Promises):
    """A tick whose answer was lost may be sent again."""

    @promise
    async def test_a_repeated_tick_gives_the_same_jobs_and_tokens(self, case: Case) -> None:
        await case.jobs.add([new_job() for _ in range(5)])
        await case.register("ann")
        first = await case.tick("ann", want=wanted(limit=2), seq=7)
        again = await case.tick("ann", want=wanted(limit=2), seq=7, repeat=True)
        assert sorted(again.claimed, key=by_id) == sorted(first.claimed, key=by_id)
        third = await case.tick("ann", want=wanted(limit=5), seq=8)
        assert len(third.claimed) == 3

    @promise
    async def test_a_repeat_gives_back_jobs_as_they_stand(self, case: Case) -> None:
        await case.add()
        await case.register("ann")
        [job] = (await case.tick("ann", want=wanted(), seq=1)).claimed
        await case.jobs.extend("ann", [Extension(job=job.id, token=job.token, lease=2 * LONG, elapsed=0)])
        [again] = (await case.tick("ann", want=wanted(), seq=1, repeat=True)).claimed
        assert again == await case.reload(job)
        assert again.state is State.RUNNING

    @promise
    async def test_a_repeat_claims_anew_if_the_first_never_arrived(self, case: Case) -> None:
        job = await case.add()
        await case.register("ann")
        ticked = await case.tick("ann", want=wanted(), seq=3, repeat=True)
        assert [claimed.id for claimed in ticked.claimed] == [job.id]
        again = await case.tick("ann", want=wanted(), seq=3, repeat=True)
        assert again.claimed == ticked.claimed

    @promise
    async def test_a_repeat_does_not_give_back_what_another_tick_claimed(self, case: Case) -> None:
        await case.register("ann")
        await case.register("bob")
        await case.jobs.add([new_job(), new_job()])
        await case.tick("ann", want=wanted(), seq=1)
        await case.tick("bob", want=wanted(), seq=2)
        assert (await case.tick("ann", want=wanted(), seq=2, repeat=True)).claimed == []
        assert (await case.tick("bob", want=wanted(), seq=1, repeat=True)).claimed == []

    @promise
    async def test_a_repeat_does_not_give_back_what_has_ended(self, case: Case) -> None:
        await case.jobs.add([new_job(), new_job()])
        await case.register("ann")
        one, two = (await case.tick("ann", want=wanted(limit=2), seq=1)).claimed
        await case.move("ann", ended(one))
        again = await case.tick("ann", want=wanted(limit=2), seq=1, repeat=True)
        assert again.claimed == [two]

    @promise
    async def test_a_job_claimed_again_belongs_to_the_later_tick(self, case: Case) -> None:
        await case.add()
        await case.register("ann")
        [job] = (await case.tick("ann", want=wanted(), seq=1)).claimed
        await case.move("ann", ended(job, RETURNED, Ending.RELEASED))
        [later] = (await case.tick("ann", want=wanted(), seq=2)).claimed
        assert (await case.tick("ann", want=wanted(), seq=1, repeat=True)).claimed == []
        assert (await case.tick("ann", want=wanted(), seq=2, repeat=True)).claimed == [later]

    @promise
    async def test_a_repeat_gives_back_jobs_to_a_worker_that_is_no_longer_registered(
        self, case: Case
    ) -> None:
        await case.add()
        await case.register("ann")
        first = await case.tick("ann", want=wanted(), seq=1)
        await case.fleet.retire("ann")
        again = await case.tick("ann", want=wanted(), seq=1, repeat=True)
        assert (again.registered, again.claimed) == (False, first.claimed)

    @promise
    async def test_a_whole_tick_sent_again_changes_nothing_more(self, case: Case) -> None:
        await case.jobs.add([new_job() for _ in range(4)])
        one, two = await case.claim(limit=2)
        moves = [ended(one, result=b"[1]", children=(new_job(),)), ended(two, RETURNED, Ending.RELEASED)]
        first = await case.tick("ann", moves, wanted(limit=2), seq=9)
        jobs = await case.jobs.states([one.id, two.id])
        again = await case.tick("ann", moves, wanted(limit=2), seq=9, repeat=True)
        assert again.verdicts == first.verdicts == [Verdict.ACCEPTED, Verdict.ACCEPTED]
        assert sorted(again.claimed, key=by_id) == sorted(first.claimed, key=by_id)
        assert await case.jobs.states([one.id, two.id]) == jobs
        assert len(await case.jobs.history(one.id)) == len(await case.jobs.history(two.id)) == 1

    @promise
    async def test_a_repeated_move_is_accepted_even_after_the_job_went_on(self, case: Case) -> None:
        job = await case.add_and_claim()
        move = ended(job, RETURNED, Ending.RELEASED)
        await case.move("ann", move)
        later = await case.claim_one("bob")
        assert await case.move("ann", move) is Verdict.ACCEPTED
        assert await case.reload(job) == later
        assert len(await case.jobs.history(job.id)) == 1

    @promise
    async def test_the_same_move_from_another_worker_is_not_a_repeat(self, case: Case) -> None:
        job = await case.add_and_claim()
        await case.move("ann", ended(job))
        assert await case.move("bob", ended(job)) is Verdict.REFUSED

    @promise
    async def test_another_outcome_is_not_a_repeat(self, case: Case) -> None:
        job = await case.add_and_claim()
        await case.move("ann", ended(job, RETURNED, Ending.RELEASED))
        stored = await case.reload(job)
        assert await case.move("ann", ended(job)) is Verdict.REFUSED
        assert await case.reload(job) == stored
        assert [attempt.outcome for attempt in await case.jobs.history(job.id)] == [Ending.RELEASED]

    @promise
    async def test_another_token_is_not_a_repeat(self, case: Case) -> None:
        job = await case.add_and_claim()
        await case.move("ann", ended(job))
        other = Move(job=job.id, token=job.token - 1, path=SUCCEEDED, outcome=Ending.SUCCESS)
        assert await case.move("ann", other) is Verdict.REFUSED

    @promise
    async def test_delete_pause_resume_and_retire_may_be_repeated(self, case: Case) -> None:
        job = await case.add()
        for _ in range(2):
            assert await case.jobs.delete(job.id)
            await case.fleet.pause("q")
        assert [queue.paused for queue in await case.fleet.queues()] == [True]
        await case.register("ann")
        for _ in range(2):
            await case.fleet.resume("q")
            await case.fleet.retire("ann")
        assert [queue.paused for queue in await case.fleet.queues()] == [False]
        assert await case.fleet.workers() == []

    @promise
    async def test_a_repeated_extension_is_still_held(self, case: Case) -> None:
        job = await case.add_and_claim()
        extension = Extension(job=job.id, token=job.token, lease=LONG, elapsed=5, progress=0.5)
        await case.jobs.extend("ann", [extension])
        stored = await case.reload(job)
        assert await case.jobs.extend("ann", [extension]) == [Held.HELD]
        again = await case.reload(job)
        assert (again.started, again.progress, again.version) == (stored.started, 0.5, stored.version)


def by_id(job: JobRecord) -> str:
    return job.id
