"""Promises of `tick`: jobs that are added with a move."""

from holdfast.model.lifecycle import RETRIED, RETURNED, SUCCEEDED, Ending, State
from holdfast.model.records import Move, Verdict
from holdfast.model.timing import SECOND
from holdfast.testing.conformance.case import LONG, Case, Promises, ended, new_job, promise, wanted


class ChildPromises(Promises):
    """Children come with the move, or not at all."""

    @promise
    async def test_children_are_added_with_the_move(self, case: Case) -> None:
        job = await case.add_and_claim()
        children = (new_job(tags=("child",)), new_job(queue="other", delay=SECOND))
        assert await case.move("ann", ended(job, children=children)) is Verdict.ACCEPTED
        first, second = await case.jobs.states([child.id for child in children])
        assert first is not None
        assert second is not None
        assert (first.state, first.version, first.token, first.tags) == (State.SCHEDULED, 1, 0, ("child",))
        assert second.due == second.created + SECOND
        assert (await case.claim_one()).id == first.id

    @promise
    async def test_children_of_a_refused_move_are_not_added(self, case: Case) -> None:
        job = await case.add_and_claim()
        child = new_job()
        wrong = Move(
            job=job.id, token=job.token + 1, path=SUCCEEDED, outcome=Ending.SUCCESS, children=(child,)
        )
        assert await case.move("ann", wrong) is Verdict.REFUSED
        assert await case.jobs.get(child.id) is None

    @promise
    async def test_children_of_a_repeated_move_are_not_added_again(self, case: Case) -> None:
        job = await case.add_and_claim()
        child = new_job()
        move = ended(job, children=(child,))
        await case.move("ann", move)
        await case.jobs.delete(child.id)
        assert await case.move("ann", move) is Verdict.ACCEPTED
        assert await case.jobs.get(child.id) is None

    @promise
    async def test_children_come_with_a_move_that_lets_the_job_wait_again(self, case: Case) -> None:
        job = await case.add_and_claim()
        child = new_job()
        await case.move("ann", ended(job, RETRIED, Ending.RETRY, delay=LONG, children=(child,)))
        assert (await case.claim_one()).id == child.id

    @promise
    async def test_a_child_can_be_claimed_by_the_same_tick(self, case: Case) -> None:
        job = await case.add_and_claim()
        child = new_job()
        ticked = await case.tick("ann", [ended(job, children=(child,))], wanted())
        assert [claimed.id for claimed in ticked.claimed] == [child.id]

    @promise
    async def test_a_childs_key_is_held(self, case: Case) -> None:
        job = await case.add_and_claim()
        child = new_job(key="k", key_ttl=LONG)
        await case.move("ann", ended(job, children=(child,)))
        [answer] = await case.jobs.add([new_job(key="k")])
        assert (answer.created, answer.record.id) == (False, child.id)

    @promise
    async def test_a_child_whose_id_or_key_is_taken_is_left_out(self, case: Case) -> None:
        holder = await case.add(key="k", key_ttl=LONG, delay=LONG)
        stored = await case.add(delay=LONG)
        job = await case.add_and_claim()
        same, other, taken, kept = (
            new_job(key="k"),
            new_job(key="k", payload=b"[2]"),
            new_job(id=stored.id, payload=b"[2]"),
            new_job(),
        )
        verdict = await case.move("ann", ended(job, children=(same, other, taken, kept)))
        assert verdict is Verdict.ACCEPTED
        assert (await case.reload(job)).state is State.SUCCESS
        assert await case.jobs.states([same.id, other.id]) == [None, None]
        assert await case.reload(stored) == stored
        assert await case.reload(holder) == holder
        assert (await case.reload(kept.id)).state is State.SCHEDULED

    @promise
    async def test_children_of_one_tick_see_each_other(self, case: Case) -> None:
        await case.jobs.add([new_job(), new_job()])
        one, two = await case.claim(limit=2)
        first, second = new_job(key="k", key_ttl=LONG), new_job(key="k")
        ticked = await case.tick(
            "ann", [ended(one, children=(first,)), ended(two, RETURNED, Ending.RELEASED, children=(second,))]
        )
        assert ticked.verdicts == [Verdict.ACCEPTED, Verdict.ACCEPTED]
        assert await case.jobs.get(first.id) is not None
        assert await case.jobs.get(second.id) is None
