"""Promises about wants that stand: a new job is claimed for an idle worker at once, and told to it."""

import asyncio
from itertools import count
from typing import Any

from msgspec.structs import replace

from holdfast.model.lifecycle import RETURNED, Ending, State
from holdfast.model.records import JobRecord, NewJob, Verdict
from holdfast.model.timing import SECOND
from holdfast.testing.conformance.case import (
    LEASE,
    LONG,
    QUEUE,
    TASK,
    Case,
    Promises,
    ended,
    new_job,
    promise,
    wanted,
)
from holdfast.testing.conformance.idle import SOON, Idle, idle, standing

LARGE = 3_000_000


class StandingPromises(Promises):
    """For a store whose wake-ups are `Handovers`, and that keeps wants.

    It may do otherwise with jobs that are known to be new: a class with `is_fresh` False tests the others.
    One that hands over single jobs only has `most` 1.
    """

    is_fresh = True
    most = 2

    def new(self, **fields: Any) -> NewJob:
        return new_job(**{"fresh": self.is_fresh, **fields})

    async def add(self, case: Case, **fields: Any) -> JobRecord:
        return await case.add(**{"fresh": self.is_fresh, **fields})

    @promise
    async def test_a_new_job_is_claimed_for_a_want_that_stands_and_its_session_is_told(
        self, case: Case
    ) -> None:
        async with idle(case) as ann:
            seq = await ann.stand(standing(lease=LEASE))
            case.advance(0.5)
            new = self.new(payload=b"[7]", tags=("a",), timeout=9)
            [added] = await case.jobs.add([new])
            assert (added.created, added.record.state, added.record.version) == (True, State.SCHEDULED, 1)
            handed = await ann.handed()
            assert (handed.worker, handed.seq) == ("ann", seq)
            assert handed.after >= SECOND // 2
            [job] = handed.claimed
            assert job == await case.reload(new.id)
            assert (job.state, job.worker, job.run, job.version) == (State.CLAIMED, "ann", 1, 2)
            assert job.token >= job.created
            assert job.lease_until == job.created + LEASE
            assert (job.payload, job.tags, job.timeout) == (b"[7]", ("a",), 9)
            assert (await ann.tick(moves=[ended(job)])).verdicts == [Verdict.ACCEPTED]

    @promise
    async def test_a_want_is_fulfilled_once_and_each_job_goes_to_one(self, case: Case) -> None:
        async with idle(case) as ann, idle(case, "bob") as bob:
            await ann.stand(standing(limit=5))
            await bob.stand(standing(limit=5))
            jobs = [await self.add(case) for _ in range(3)]
            stored = [await case.reload(job) for job in jobs]
            assert sorted(job.worker or "" for job in stored) == ["", "ann", "bob"]
            assert stored[2].state is State.SCHEDULED, "neither has said yet that it wants more"
            for worker in (ann, bob):
                [job] = (await worker.handed()).claimed
                assert job.worker == worker.name

    @promise
    async def test_more_than_is_wanted_waits_for_whoever_comes(self, case: Case) -> None:
        async with idle(case) as ann:
            await ann.stand(standing(limit=2))
            jobs = [self.new(priority=number) for number in (3, 1, 2)]
            await case.jobs.add(jobs)
            assert [await state_of(case, job.id) for job in jobs] == [State.SCHEDULED] * 3
            ticked = await ann.tick(standing(limit=2), stood=1)
            assert [job.priority for job in ticked.claimed] == [1, 2]

    @promise
    async def test_nobody_gets_what_was_not_wanted(self, case: Case) -> None:
        async with idle(case) as ann:
            await ann.stand(standing(limit=9))
            other = await case.open(f"{case.namespace}-other")
            far = self.new()
            await other.jobs.add([far])
            unwanted = [self.new(task="other"), self.new(queue="other"), self.new(delay=LONG)]
            for new in unwanted:
                await case.jobs.add([new])
            await case.jobs.add([self.new(task="other") for _ in range(3)])
            stored = await case.jobs.states([job.id for job in unwanted])
            stored += await other.jobs.states([far.id])
            assert {job.state for job in stored if job is not None} == {State.SCHEDULED}
            assert len(stored) == 4
            job = await self.add(case)
            [got] = (await ann.handed()).claimed
            assert got.id == job.id, "it still stands, though jobs came that it does not want"

    @promise
    async def test_a_want_stands_in_all_its_queues(self, case: Case) -> None:
        async with idle(case) as ann:
            for queue in ("b", "a", "b", QUEUE):
                seq = await ann.stand(standing("a", "b", QUEUE))
                job = await self.add(case, queue=queue)
                handed = await ann.handed()
                assert ([got.id for got in handed.claimed], handed.seq) == ([job.id], seq)

    @promise
    async def test_a_paused_queue_hands_over_nothing_until_it_is_resumed(self, case: Case) -> None:
        async with idle(case) as ann:
            seq = await ann.stand(standing(QUEUE, "other"))
            await case.fleet.pause(QUEUE)
            assert await state_of(case, (await self.add(case)).id) is State.SCHEDULED
            job = await self.add(case, queue="other")
            assert [got.id for got in (await ann.handed()).claimed] == [job.id]
            seq = await ann.stand(standing(QUEUE, "other"), stood=None)
            assert await state_of(case, (await self.add(case)).id) is State.SCHEDULED
            await case.fleet.resume(QUEUE)
            ticked = await ann.tick(standing(QUEUE, limit=5), stood=seq)
            assert (len(ticked.claimed), ticked.stands) == (2, True)
            await self.add(case)
            assert len((await ann.handed()).claimed) == 1

    @promise
    async def test_nothing_is_claimed_for_who_is_dead_or_has_left(self, case: Case) -> None:
        async with idle(case) as ann, idle(case, "bob", lease=LEASE) as bob:
            await ann.stand()
            await bob.stand()
            await ann.session.fleet.retire("ann")
            case.advance(LEASE / SECOND)
            assert await state_of(case, (await self.add(case)).id) is State.SCHEDULED
            assert not (await ann.tick(standing())).stands
            assert not (await ann.tick(standing())).registered

    @promise
    async def test_nothing_is_claimed_for_who_was_silent_for_too_long(self, case: Case) -> None:
        async with idle(case) as ann:
            seq = await ann.stand(replace(standing(), stands=LEASE))
            case.advance(LEASE / SECOND)
            job = await self.add(case)
            assert await state_of(case, job.id) is State.SCHEDULED
            [got] = (await ann.tick(standing(), stood=seq)).claimed
            assert got.id == job.id

    @promise
    async def test_nothing_stands_unless_somebody_receives(self, case: Case) -> None:
        await case.register("ann")
        assert not (await case.tick("ann", want=standing())).stands
        async with idle(case, "bob") as bob:
            await bob.stand(standing("other"))
        ticked = await bob.tick(standing(), stood=2)
        assert not ticked.stands
        assert await state_of(case, (await self.add(case)).id) is State.SCHEDULED

    @promise
    async def test_the_tick_that_names_the_want_gives_what_was_claimed_for_it(self, case: Case) -> None:
        async with idle(case) as ann:
            for want in (None, standing(limit=5), wanted(limit=5)):
                seq = await ann.stand(standing(limit=2))
                new = [self.new() for _ in range(self.most)]
                await case.jobs.add(new)
                waiting = await self.add(case)
                case.advance(0.5)
                ticked = await ann.tick(want, stood=seq)
                assert {job.id for job in ticked.claimed} == {job.id for job in new}, "and nothing else"
                assert ticked.claimed == await case.jobs.states([job.id for job in ticked.claimed])
                assert (ticked.handed, ticked.stands) == (self.most, False)
                assert ticked.handed_ago is None or ticked.handed_ago >= SECOND // 2
                [last] = (await ann.tick(wanted())).claimed
                assert last.id == waiting.id
                done = await ann.tick(moves=[ended(job) for job in [*ticked.claimed, last]])
                assert done.verdicts == [Verdict.ACCEPTED] * (self.most + 1)

    @promise
    async def test_the_tick_that_names_a_want_ends_it(self, case: Case) -> None:
        async with idle(case) as ann:
            seq = await ann.stand()
            ticked = await ann.tick(stood=seq)
            assert (ticked.claimed, ticked.handed) == ([], 0)
            assert await state_of(case, (await self.add(case)).id) is State.SCHEDULED

    @promise
    async def test_a_want_that_is_fulfilled_whole_leaves_none_standing(self, case: Case) -> None:
        async with idle(case) as ann:
            seq = await ann.stand(standing("other"))
            await self.add(case)
            ticked = await ann.tick(standing(QUEUE, "other"), stood=seq)
            assert (len(ticked.claimed), ticked.stands) == (1, False)
            assert await state_of(case, (await self.add(case, queue="other")).id) is State.SCHEDULED

    @promise
    async def test_a_repeated_tick_gives_what_was_claimed_for_its_own_want(self, case: Case) -> None:
        async with idle(case) as ann:
            ready = await self.add(case)
            seq = 1_000
            lost = await ann.tick(standing(limit=2), seq=seq)
            assert ([job.id for job in lost.claimed], lost.stands) == ([ready.id], True)
            new = await self.add(case)
            [job] = (await ann.handed()).claimed
            again = await ann.tick(standing(limit=2), seq=seq, repeat=True)
            assert {got.id for got in again.claimed} == {ready.id, new.id}
            assert job in again.claimed
            assert not again.stands

    @promise
    async def test_a_repeated_tick_gives_again_what_was_claimed_for_the_want_that_stood(
        self, case: Case
    ) -> None:
        async with idle(case) as ann:
            for want in (None, standing(limit=5)):
                seq = await ann.stand(standing(limit=2))
                jobs = {(await self.add(case)).id}
                now = seq + 1_000
                first = await ann.tick(want, seq=now, stood=seq)
                again = await ann.tick(want, seq=now, stood=seq, repeat=True)
                assert first.claimed == again.claimed
                assert {job.id for job in again.claimed} == jobs
                assert again.handed == 1
                ann.seqs = count(now + 1)

    @promise
    async def test_a_job_that_waits_is_not_passed_over(self, case: Case) -> None:
        async with idle(case) as ann:
            held = await case.add_and_claim("bob")
            seq = await ann.stand()
            await case.move("bob", ended(held, RETURNED, Ending.RELEASED))
            later = await self.add(case)
            assert await state_of(case, later.id) is State.SCHEDULED, "it is not the first"
            [job] = (await ann.tick(standing(), stood=seq)).claimed
            assert job.id == held.id

    @promise
    async def test_a_job_has_its_own_lease(self, case: Case) -> None:
        async with idle(case) as ann:
            for count in range(1, self.most + 1):
                jobs = [self.new(lease=LEASE) for _ in range(count)]
                await ann.stand(standing(limit=2))
                await case.jobs.add(jobs)
                for job in (await ann.handed()).claimed:
                    assert (job.lease, job.lease_until) == (LEASE, job.created + LEASE)

    @promise
    async def test_a_job_whose_lease_expired_unheard_goes_to_another(self, case: Case) -> None:
        async with idle(case) as ann:
            await ann.stand(standing(lease=LEASE))
            job = await self.add(case)
            case.advance(LEASE / SECOND)
            [expired] = await case.jobs.expired(9)
            assert (expired.id, expired.worker) == (job.id, "ann")
            await case.register("bob")
            lost = ended(expired, RETURNED, Ending.LOST, if_expired=True, lost=1)
            assert await case.move("bob", lost) is Verdict.ACCEPTED
            [again] = await case.claim("bob")
            assert again.token > expired.token
            assert (await ann.tick(moves=[ended(expired)])).verdicts == [Verdict.REFUSED]

    @promise
    async def test_what_is_too_large_for_a_message_comes_with_the_tick(self, case: Case) -> None:
        async with idle(case) as ann:
            for others in range(self.most):
                new = [self.new(payload=b"x" * LARGE), *(self.new() for _ in range(others))]
                seq = await ann.stand(standing(limit=2))
                await case.jobs.add(new)
                handed = await ann.handed()
                assert handed.seq == seq
                ticked = await ann.tick(stood=seq)
                assert {job.id for job in ticked.claimed} == {job.id for job in new}
                assert len(max(job.payload for job in ticked.claimed)) == LARGE

    @promise
    async def test_many_at_once_are_given_each_to_one_worker(self, case: Case) -> None:
        async with idle(case) as ann, idle(case, "bob") as bob, idle(case, "cid") as cid:
            new = [self.new() for _ in range(30)]
            workers = (ann, bob, cid)
            got: list[JobRecord] = []

            async def serve(worker: Idle) -> None:
                stood: int | None = None
                while len(got) < len(new):
                    seq = next(worker.seqs)
                    ticked = await worker.tick(standing(limit=2), seq=seq, stood=stood)
                    got.extend(ticked.claimed)
                    stood = seq if ticked.stands else None
                    await asyncio.sleep(0)

            async def produce() -> None:
                for job in new:
                    await case.jobs.add([job])

            await asyncio.wait_for(asyncio.gather(produce(), *map(serve, workers)), 4 * SOON)
            assert sorted(job.id for job in got) == sorted(job.id for job in new)
            assert {job.task for job in got} == {TASK}


class StandingBatchPromises(StandingPromises):
    """For a store that hands over whatever is added, many at once and such as have keys too."""

    @promise
    async def test_a_batch_is_handed_over_as_far_as_it_is_wanted(self, case: Case) -> None:
        async with idle(case) as ann, idle(case, "bob") as bob:
            first = await self.add(case)
            ticked = await ann.tick(standing(limit=3))
            assert ([job.id for job in ticked.claimed], ticked.stands) == ([first.id], True)
            await bob.stand(standing(limit=1))
            await case.jobs.add([self.new() for _ in range(3)])
            assert len((await ann.handed()).claimed) == 2
            assert len((await bob.handed()).claimed) == 1

    @promise
    async def test_what_is_held_no_longer_is_not_given(self, case: Case) -> None:
        async with idle(case) as ann:
            seq = await ann.stand(standing(limit=2, lease=LEASE))
            await case.jobs.add([self.new(), self.new()])
            first, second = (await ann.handed()).claimed
            await ann.tick(moves=[ended(first, RETURNED, Ending.RELEASED)])
            [taken] = await case.claim("bob")
            assert taken.id == first.id
            ticked = await ann.tick(stood=seq)
            assert [job.id for job in ticked.claimed] == [second.id]

    @promise
    async def test_a_job_that_is_stored_already_is_not_handed_over(self, case: Case) -> None:
        async with idle(case) as ann:
            done = self.new(key="k", key_ttl=LONG)
            await ann.stand()
            await case.jobs.add([done])
            [job] = (await ann.handed()).claimed
            seq = await ann.stand(standing(limit=5))
            again = await case.jobs.add([done, replace(done, fresh=False), self.new(key="k")])
            again += await case.jobs.add([replace(done, key=None, key_ttl=0)])
            assert [added.created for added in again] == [False] * 4
            assert {added.record.id for added in again} == {job.id}
            assert await case.reload(job) == job
            assert (await ann.tick(stood=seq)).handed == 0


async def state_of(case: Case, job_id: str) -> State:
    return (await case.reload(job_id)).state
