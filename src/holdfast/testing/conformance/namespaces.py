"""Promises about namespaces: a session neither sees nor changes anything of another."""

from holdfast.model.lifecycle import FAILED_FOR_GOOD, RETRIED, Ending, State
from holdfast.model.records import Edit, Extension, Held, Query, Tick, Verdict
from holdfast.store import Session
from holdfast.testing.conformance.case import (
    LEASE,
    LONG,
    QUEUE,
    Case,
    Promises,
    ended,
    new_job,
    promise,
    wanted,
    worker_record,
)


class NamespacePromises(Promises):
    """Every operation stays within its namespace, even where ids, keys and names are the same."""

    @promise
    async def test_ids_and_keys_are_each_namespaces_own(self, case: Case) -> None:
        other = await stranger(case)
        job = new_job(key="k", key_ttl=LONG)
        twin = new_job(id=job.id, key="k", key_ttl=LONG, payload=b"[2]")
        for session, work in ((case.session, job), (other, twin)):
            [added] = await session.jobs.add([work])
            assert (added.created, added.record.payload) == (True, work.payload)

    @promise
    async def test_reading_shows_nothing_of_another(self, case: Case) -> None:
        other = await stranger(case)
        job = await case.add_and_claim(lease=LEASE)
        waiting = await case.add()
        await case.fleet.pause(QUEUE)
        case.advance(2.5)
        assert await other.jobs.get(job.id) is None
        assert await other.jobs.states([job.id, waiting.id]) == [None, None]
        assert await other.jobs.find(Query()) == []
        assert await other.jobs.count() == []
        assert await other.jobs.expired(10) == []
        assert await other.fleet.workers() == []
        assert await other.fleet.queues() == []
        await case.move("ann", ended(job))
        assert await other.jobs.history(job.id) == []

    @promise
    async def test_claiming_takes_nothing_of_another(self, case: Case) -> None:
        other = await stranger(case)
        await case.add()
        await case.add(delay=LONG)
        await other.fleet.register(worker_record("ann"), LONG)
        ticked = await other.jobs.tick(Tick(worker="ann", seq=1, moves=[], want=wanted(limit=10)))
        assert (ticked.registered, ticked.claimed, ticked.next_due) == (True, [], None)

    @promise
    async def test_registration_and_pauses_are_each_namespaces_own(self, case: Case) -> None:
        other = await stranger(case)
        await other.fleet.register(worker_record("ann"), LONG)
        await other.fleet.pause(QUEUE)
        await case.add()
        ticked = await case.tick("ann", want=wanted())
        assert (ticked.registered, ticked.paused) == (False, frozenset())
        await case.register("ann")
        await other.fleet.retire("ann")
        assert not await other.fleet.beat("ann", LONG)
        assert len((await case.tick("ann", want=wanted())).claimed) == 1

    @promise
    async def test_nothing_of_another_can_be_changed(self, case: Case) -> None:
        other = await stranger(case)
        held = await case.add_and_claim(lease=LEASE)
        await case.jobs.edit(held.id, held.version, Edit(ask_cancel=True))
        waiting = await case.add()
        done = await case.add_and_claim(priority=-1)
        await case.move("ann", ended(done, FAILED_FOR_GOOD, Ending.FAILED))
        case.advance(2.5)
        before = await case.jobs.states([held.id, waiting.id, done.id])
        reclaim = ended(held, RETRIED, Ending.LOST, if_expired=True)
        ticked = await other.jobs.tick(Tick(worker="ann", seq=1, moves=[ended(held), reclaim]))
        assert ticked.verdicts == [Verdict.REFUSED, Verdict.REFUSED]
        assert ticked.cancel_asked == []
        extension = Extension(job=held.id, token=held.token, lease=LONG)
        assert await other.jobs.extend("ann", [extension]) == [Held.LOST]
        assert await other.jobs.edit(waiting.id, waiting.version, Edit(priority=9)) is None
        assert await other.jobs.delete(waiting.id)
        assert await other.jobs.prune(0, 10) == 0
        assert await case.jobs.states([held.id, waiting.id, done.id]) == before
        assert len(await case.jobs.history(done.id)) == 1

    @promise
    async def test_repeats_are_each_namespaces_own(self, case: Case) -> None:
        other = await stranger(case)
        await case.add()
        await case.register("ann")
        [job] = (await case.tick("ann", want=wanted(), seq=5)).claimed
        await other.fleet.register(worker_record("ann"), LONG)
        again = await other.jobs.tick(Tick(worker="ann", seq=5, moves=[], want=wanted(), repeat=True))
        assert again.claimed == []
        await case.move("ann", ended(job))
        ticked = await other.jobs.tick(Tick(worker="ann", seq=6, moves=[ended(job)]))
        assert ticked.verdicts == [Verdict.REFUSED]

    @promise
    async def test_the_same_work_goes_its_own_way_in_each(self, case: Case) -> None:
        other = await stranger(case)
        job = new_job()
        for session in (case.session, other):
            await session.jobs.add([job])
        held = await case.claim_one()
        await case.move("ann", ended(held))
        twin = await other.jobs.get(job.id)
        assert twin is not None
        assert (twin.state, twin.run, twin.token) == (State.SCHEDULED, 0, 0)


async def stranger(case: Case) -> Session:
    return await case.open(f"{case.namespace}-stranger")
