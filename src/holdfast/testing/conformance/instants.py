"""Promises at the very instant: what ends, ends when its end is reached; what is due, is due then."""

from holdfast.model.lifecycle import RETRIED, STARTED, Ending
from holdfast.model.records import Extension, Held, Move, Verdict
from holdfast.model.timing import SECOND
from holdfast.testing.conformance.case import (
    LEASE,
    LONG,
    Case,
    Promises,
    ended,
    new_job,
    promise,
    wanted,
    worker_record,
)


class InstantPromises(Promises):
    """One microsecond before is not yet; these need a clock that can be moved."""

    @promise
    async def test_a_lease_has_expired_when_its_end_is_reached(self, case: Case) -> None:
        job = await case.add_and_claim(lease=LEASE)
        assert job.lease_until is not None
        extension = Extension(job=job.id, token=job.token, lease=1)
        start = Move(job=job.id, token=job.token, path=STARTED)
        reclaim = ended(job, RETRIED, Ending.LOST, if_expired=True)
        await case.advance_to(job.lease_until - 1)
        assert await case.jobs.expired(5) == []
        assert await case.move("bob", reclaim) is Verdict.REFUSED
        assert await case.jobs.extend("ann", [extension]) == [Held.HELD]
        await case.advance_to(job.lease_until)
        assert [found.id for found in await case.jobs.expired(5)] == [job.id]
        assert await case.jobs.extend("ann", [extension]) == [Held.LOST]
        assert await case.move("ann", start) is Verdict.REFUSED
        assert await case.move("bob", reclaim) is Verdict.ACCEPTED

    @promise
    async def test_a_job_is_due_when_its_time_is_reached(self, case: Case) -> None:
        job = await case.add(delay=LEASE)
        await case.register("ann")
        await case.advance_to(job.due - 1)
        ticked = await case.tick("ann", want=wanted())
        assert (ticked.claimed, ticked.next_due) == ([], 1)
        assert [line.due for line in await case.jobs.count() if line.queue == job.queue] == [0]
        await case.advance_to(job.due)
        assert [line.due for line in await case.jobs.count() if line.queue == job.queue] == [1]
        assert (await case.claim_one()).id == job.id

    @promise
    async def test_a_key_is_free_when_its_ttl_is_over(self, case: Case) -> None:
        job = await case.add_and_claim(key="k", key_ttl=LEASE)
        await case.move("ann", ended(job))
        await case.advance_to(job.created + LEASE - 1)
        [before] = await case.jobs.add([new_job(key="k")])
        await case.advance_to(job.created + LEASE)
        [after] = await case.jobs.add([new_job(key="k")])
        assert (before.created, after.created) == (False, True)

    @promise
    async def test_a_worker_is_dead_when_its_lease_is_over(self, case: Case) -> None:
        await case.fleet.register(worker_record("ann"), LEASE)
        [known] = await case.fleet.workers()
        await case.advance_to(known.seen + LEASE - 1)
        assert (await case.tick("ann")).registered
        assert [worker.live for worker in await case.fleet.workers()] == [True]
        await case.advance_to(known.seen + LEASE)
        assert not (await case.tick("ann")).registered
        assert [worker.live for worker in await case.fleet.workers()] == [False]

    @promise
    async def test_a_finished_job_is_removed_only_when_it_is_older_than_asked(self, case: Case) -> None:
        job = await case.add_and_claim()
        await case.move("ann", ended(job))
        finished = (await case.reload(job)).finished
        assert finished is not None
        await case.advance_to(finished + SECOND)
        assert await case.jobs.prune(SECOND, 10) == 0
        await case.advance_to(finished + SECOND + 1)
        assert await case.jobs.prune(SECOND, 10) == 1

    @promise
    async def test_all_that_one_tick_does_happens_at_one_instant(self, case: Case) -> None:
        await case.jobs.add([new_job() for _ in range(3)])
        one, two = await case.claim(limit=2)
        child = new_job(delay=LONG)
        moves = [ended(one, children=(child,)), ended(two, RETRIED, Ending.RETRY, delay=LONG)]
        [third] = (await case.tick("ann", moves, wanted())).claimed
        now = (await case.reload(child.id)).created
        assert (await case.reload(one)).finished == now
        assert (await case.reload(two)).due == now + LONG
        assert third.lease_until == now + LONG
