"""Promises of limits: how many jobs are leased at once, and how often one is claimed."""

import asyncio
from typing import Any

from msgspec.structs import replace

from holdfast.model.flow import LimitRecord, NewFlow, Scope, Usage, gate
from holdfast.model.lifecycle import RETRIED, RETURNED, SUCCEEDED, Ending, State
from holdfast.model.records import Edit, JobRecord, NewJob
from holdfast.model.timing import SECOND
from holdfast.testing.conformance.case import (
    LEASE,
    QUEUE,
    TASK,
    Case,
    Promises,
    ended,
    new_job,
    promise,
    wanted,
)

KEY = "tenant"
MANY = 40


def limit(scope: Scope, name: str, **fields: Any) -> LimitRecord:
    return LimitRecord(scope=scope, name=name, **fields)


def keyed(key: str = KEY, **fields: Any) -> NewJob:
    return new_job(flow=NewFlow(limit_key=key), **fields)


def names(jobs: list[JobRecord]) -> list[str]:
    return [job.id for job in jobs]


def _as_put(limits: list[LimitRecord]) -> list[LimitRecord]:
    """Without what the store says itself."""
    return [replace(each, paused_since=None) for each in limits]


class LimitPromises(Promises):
    """What limits hold back, and when they let it go."""

    @promise
    async def test_limits_are_kept_as_they_were_put(self, case: Case) -> None:
        put = [
            limit(Scope.EACH_KEY, TASK, concurrency=3),
            limit(Scope.KEY, "é \x01 key", rate=5, period=SECOND, burst=2, weight=2.5),
            limit(Scope.QUEUE, QUEUE, concurrency=2**31 - 1),
            limit(Scope.TASK, TASK, paused=True),
        ]
        await case.flow.put(put)
        assert _as_put(await case.flow.limits()) == put
        await case.flow.put([limit(Scope.TASK, TASK, concurrency=1)])
        await case.flow.remove(Scope.QUEUE, QUEUE)
        await case.flow.remove(Scope.QUEUE, QUEUE)
        assert await case.flow.limits() == [*put[:2], limit(Scope.TASK, TASK, concurrency=1)]

    @promise
    async def test_a_limit_is_paused_since_the_store_heard_of_it(self, case: Case) -> None:
        before = (await case.add()).created
        case.advance(1)
        await case.flow.put([limit(Scope.KEY, KEY, paused=True, paused_since=1)])
        [paused] = await case.flow.limits()
        assert paused.paused_since is not None
        assert before < paused.paused_since
        case.advance(1)
        await case.flow.put([limit(Scope.KEY, KEY, paused=True, concurrency=3)])
        [still] = await case.flow.limits()
        assert (still.concurrency, still.paused_since) == (3, paused.paused_since)
        await case.flow.put([replace(still, paused=False)])
        [open_again] = await case.flow.limits()
        assert open_again.paused_since is None
        case.advance(1)
        await case.flow.put([replace(still, paused=True), limit(Scope.TASK, TASK, paused=True)])
        again, other = await case.flow.limits()
        assert again.paused_since == other.paused_since
        assert again.paused_since is not None
        assert again.paused_since > paused.paused_since
        await case.flow.put([limit(Scope.TASK, TASK, concurrency=1, declared=True)])
        assert (await case.flow.limits())[1] == other, "what was set stays as it was"

    @promise
    async def test_one_that_was_declared_gives_way_to_one_that_was_set(self, case: Case) -> None:
        declared = limit(Scope.TASK, TASK, concurrency=1, declared=True)
        await case.flow.put([declared])
        await case.flow.put([limit(Scope.TASK, TASK, concurrency=5)])
        await case.flow.put([declared])
        assert await case.flow.limits() == [limit(Scope.TASK, TASK, concurrency=5)]

    @promise
    async def test_a_queue_never_has_more_leased_jobs_than_its_limit(self, case: Case) -> None:
        await case.flow.put([limit(Scope.QUEUE, QUEUE, concurrency=2)])
        added = [await case.add() for _ in range(5)]
        first = await case.claim(limit=10)
        assert names(first) == names(added[:2])
        assert await case.claim("bob", limit=10) == []
        assert names(await case.finish(first[0], limit=10)) == names(added[2:3])
        assert await case.claim("bob", limit=10) == []

    @promise
    async def test_a_limited_task_leaves_the_others_of_its_queue_alone(self, case: Case) -> None:
        await case.flow.put([limit(Scope.TASK, TASK, concurrency=1)])
        jobs = [new_job(task=task) for task in (TASK, TASK, "other", TASK, "other")]
        added = [answer.record for answer in await case.jobs.add(jobs)]
        await case.register("ann")
        want = wanted(tasks=(TASK, "other"), limit=10)
        first = (await case.tick("ann", want=want)).claimed
        assert names(first) == [added[0].id, added[2].id, added[4].id]
        again = await case.tick("ann", [ended(first[0])], want)
        assert names(again.claimed) == [added[1].id]

    @promise
    async def test_each_key_has_a_limit_of_its_own_across_queues_and_tasks(self, case: Case) -> None:
        await case.flow.put([limit(Scope.EACH_KEY, TASK, concurrency=1)])
        jobs = [keyed("a"), keyed("a", queue="other"), keyed("b"), keyed("b"), keyed("a", task="free")]
        added = [answer.record for answer in await case.jobs.add(jobs)]
        await case.register("ann")
        want = wanted(QUEUE, "other", tasks=(TASK, "free"), limit=10)
        claimed = (await case.tick("ann", want=want)).claimed
        # A task without a limit for its keys takes no heed of how many there are.
        assert names(claimed) == [added[0].id, added[2].id, added[4].id]
        assert (await case.tick("ann", [ended(claimed[0])], want)).claimed == []
        freed = await case.tick("ann", [ended(claimed[2])], want)
        assert names(freed.claimed) == [added[1].id]

    @promise
    async def test_a_limit_on_one_key_goes_before_that_for_each(self, case: Case) -> None:
        await case.flow.put(
            [limit(Scope.EACH_KEY, TASK, concurrency=1), limit(Scope.KEY, "big", concurrency=3)]
        )
        await case.jobs.add([*(keyed("big") for _ in range(5)), *(keyed("small") for _ in range(5))])
        claimed = await case.claim(limit=20)
        assert [job.flow.limit_key for job in claimed if job.flow] == ["big", "big", "big", "small"]

    @promise
    async def test_a_job_needs_room_at_all_of_its_gates(self, case: Case) -> None:
        await case.flow.put(
            [limit(Scope.QUEUE, QUEUE, concurrency=3), limit(Scope.EACH_KEY, TASK, concurrency=1)]
        )
        jobs = [keyed("a"), keyed("a"), keyed("a"), keyed("b"), keyed("b"), keyed("c"), keyed("d")]
        added = [answer.record for answer in await case.jobs.add(jobs)]
        first = await case.claim(limit=10)
        assert names(first) == [added[0].id, added[3].id, added[5].id]
        # The queue has room for one, and it is the first that its key lets through.
        assert names(await case.finish(first[1], limit=10)) == [added[4].id]
        assert names(await case.finish(first[0], limit=10)) == [added[1].id]
        assert names(await case.finish(first[2], limit=10)) == [added[6].id]

    @promise
    async def test_room_goes_to_the_first_by_priority(self, case: Case) -> None:
        await case.flow.put([limit(Scope.EACH_KEY, TASK, concurrency=1)])
        jobs = [keyed(), keyed(priority=5), keyed(priority=1), keyed(priority=9)]
        added = [answer.record for answer in await case.jobs.add(jobs)]
        [job] = await case.claim(limit=10)
        assert job.id == added[0].id
        [late] = await case.jobs.add([keyed(priority=-1)])
        order = [late.record.id, added[2].id, added[1].id, added[3].id]
        for expected in order:
            [job] = await case.finish(job, limit=10)
            assert job.id == expected

    @promise
    async def test_every_end_of_a_lease_makes_room(self, case: Case) -> None:
        await case.flow.put([limit(Scope.QUEUE, QUEUE, concurrency=1)])
        added = [await case.add() for _ in range(6)]
        [job] = await case.claim(limit=10)
        await case.move("ann", ended(job, RETRIED, Ending.RETRY, delay=1_000 * SECOND, failures=1))
        [job] = await case.claim(limit=10)
        assert job.id == added[1].id
        await case.dead_letter(job)
        [job] = await case.claim(limit=10, lease=LEASE)
        assert job.id == added[2].id
        case.advance(LEASE / SECOND)
        [expired] = await case.jobs.expired(10)
        assert await case.claim("bob", limit=10) == []
        reclaim = ended(expired, (State.CLAIMED, State.FAILED, State.DLQ), Ending.LOST, if_expired=True)
        assert (await case.tick("bob", [reclaim])).verdicts == ["accepted"]
        [job] = await case.claim(limit=10)
        assert job.id == added[3].id
        await case.move("ann", ended(job, RETURNED, Ending.RELEASED, delay=1_000 * SECOND))
        assert names(await case.claim(limit=10)) == [added[4].id]

    @promise
    async def test_room_that_somebody_gives_up_goes_to_the_next(self, case: Case) -> None:
        await case.flow.put([limit(Scope.QUEUE, QUEUE, concurrency=1)])
        added = [await case.add() for _ in range(6)]
        [job] = await case.claim(limit=10)
        await case.tick("ann", [ended(job)])
        await case.cancel(added[1])
        assert await case.jobs.delete(added[2].id)
        stored = await case.reload(added[3])
        assert await case.jobs.edit(stored.id, stored.version, Edit(queue="other")) is not None
        assert names(await case.claim(limit=10)) == [added[4].id]

    @promise
    async def test_a_limit_that_is_put_counts_what_is_already_leased(self, case: Case) -> None:
        for _ in range(5):
            await case.add()
        leased = await case.claim(limit=3)
        await case.flow.put([limit(Scope.TASK, TASK, concurrency=2)])
        assert await case.claim("bob", limit=10) == []
        assert await case.finish(leased[0], limit=10) == []
        assert len(await case.finish(leased[1], limit=10)) == 1

    @promise
    async def test_a_higher_limit_and_none_free_what_is_parked(self, case: Case) -> None:
        await case.flow.put([limit(Scope.EACH_KEY, TASK, concurrency=1)])
        added = [answer.record for answer in await case.jobs.add([keyed() for _ in range(6)])]
        assert len(await case.claim(limit=10)) == 1
        await case.flow.put([limit(Scope.EACH_KEY, TASK, concurrency=3)])
        assert names(await case.claim(limit=10)) == names(added[1:3])
        await case.flow.put([limit(Scope.KEY, KEY, concurrency=4)])
        assert names(await case.claim(limit=10)) == names(added[3:4])
        await case.flow.remove(Scope.KEY, KEY)
        assert await case.claim(limit=10) == []
        await case.flow.remove(Scope.EACH_KEY, TASK)
        assert names(await case.claim(limit=10)) == names(added[4:])

    @promise
    async def test_a_paused_task_is_told_and_gives_nothing_until_it_is_resumed(self, case: Case) -> None:
        added = [await case.add() for _ in range(3)]
        await case.flow.put([limit(Scope.TASK, TASK, paused=True), limit(Scope.TASK, "x", paused=True)])
        await case.register("ann")
        ticked = await case.tick("ann", want=wanted(limit=10))
        assert ticked.claimed == []
        assert ticked.paused_tasks == {TASK}
        await case.flow.remove(Scope.TASK, TASK)
        ticked = await case.tick("ann", want=wanted(limit=10))
        assert names(ticked.claimed) == names(added)
        assert ticked.paused_tasks == frozenset()

    @promise
    async def test_by_a_rate_claims_are_apart_by_its_interval(self, case: Case) -> None:
        await case.flow.put([limit(Scope.QUEUE, QUEUE, rate=2, period=2 * SECOND)])
        added = [await case.add() for _ in range(4)]
        await case.register("ann")
        first = await case.tick("ann", want=wanted(limit=10))
        assert names(first.claimed) == [added[0].id]
        assert first.next_due is not None
        assert 0 < first.next_due <= SECOND
        early = await case.tick("ann", [ended(first.claimed[0])], wanted(limit=10))
        assert early.claimed == []
        case.advance(1)
        assert names(await case.claim(limit=10)) == [added[1].id]
        case.advance(3)
        # A pause is not saved up beyond the burst.
        assert names(await case.claim(limit=10)) == [added[2].id]

    @promise
    async def test_a_burst_may_come_at_once_after_a_pause(self, case: Case) -> None:
        await case.flow.put([limit(Scope.EACH_KEY, TASK, rate=10, period=10 * SECOND, burst=3)])
        added = [answer.record for answer in await case.jobs.add([keyed() for _ in range(9)])]
        [other] = await case.jobs.add([keyed("other")])
        assert names(await case.claim(limit=20)) == [*names(added[:3]), other.record.id]
        case.advance(2)
        assert names(await case.claim(limit=20)) == names(added[3:5])

    @promise
    async def test_what_is_parked_says_where(self, case: Case) -> None:
        await case.flow.put([limit(Scope.EACH_KEY, TASK, concurrency=1)])
        first, second = [answer.record for answer in await case.jobs.add([keyed(), keyed()])]
        await case.claim(limit=10)
        parked = await case.reload(second)
        assert parked.flow is not None
        assert (parked.state, parked.flow.parked) == (State.SCHEDULED, gate(Scope.KEY, KEY))
        assert parked.version == second.version
        assert await case.flow.usage([gate(Scope.KEY, KEY), gate(Scope.TASK, TASK)]) == [
            Usage(running=1, parked=1),
            Usage(running=1, parked=0),
        ]
        [line] = [each for each in await case.jobs.count() if each.state is State.SCHEDULED]
        assert (line.count, line.due, line.parked) == (1, 0, 1)
        await case.finish(await case.reload(first), limit=1)
        claimed = await case.reload(second)
        assert (claimed.state, claimed.flow and claimed.flow.parked) == (State.CLAIMED, None)

    @promise
    async def test_a_limit_key_stays_with_its_job_to_the_end_and_beyond(self, case: Case) -> None:
        [added] = await case.jobs.add([keyed()])
        job = await case.claim_one()
        assert job.flow == added.record.flow == (await case.dead_letter(job)).flow
        assert job.flow is not None
        assert job.flow.limit_key == KEY

    @promise
    async def test_children_are_limited_too(self, case: Case) -> None:
        await case.flow.put([limit(Scope.EACH_KEY, TASK, concurrency=1)])
        await case.jobs.add([keyed()])
        parent = await case.claim_one()
        children = (keyed(), keyed())
        ticked = await case.tick("ann", [ended(parent, children=children)], wanted(limit=10))
        assert names(ticked.claimed) == [children[0].id]

    @promise
    async def test_many_parked_jobs_are_freed_one_by_one(self, case: Case) -> None:
        await case.flow.put([limit(Scope.EACH_KEY, TASK, concurrency=2)])
        await case.jobs.add([keyed(f"key-{number % 4}") for number in range(MANY)])
        held = await case.claim(limit=100)
        done = 0
        while held:
            assert all(held.count(job) == 1 for job in held)
            by_key = [job.flow.limit_key for job in held if job.flow]
            assert all(by_key.count(key) <= 2 for key in by_key)
            held = [*held[1:], *await case.finish(held[0], limit=100)]
            done += 1
        assert done == MANY

    @promise
    async def test_room_that_another_gate_does_not_let_through_is_kept_and_moves_nobody(
        self, case: Case
    ) -> None:
        await case.flow.put([limit(Scope.QUEUE, QUEUE, concurrency=2), limit(Scope.KEY, KEY, concurrency=1)])
        added = [answer.record for answer in await case.jobs.add([keyed() for _ in range(MANY)])]
        [keyed_one] = await case.claim(limit=10)
        [lone] = [await case.add_and_claim(priority=-1)]
        urgent = await case.add(priority=-1)
        assert names(await case.finish(keyed_one, limit=10)) == [urgent.id]
        # The key has room, the queue has none: to look at one of them is enough to see that.
        await case.jobs.add([keyed()])
        assert await case.claim(limit=10) == []
        [usage] = await case.flow.usage([gate(Scope.KEY, KEY)])
        assert usage.parked >= MANY - 3
        await case.cancel(added[1])
        assert names(await case.finish(lone, limit=10)) == [added[2].id]

    @promise
    async def test_who_has_seen_that_all_is_parked_is_not_told_to_ask_again_at_once(self, case: Case) -> None:
        await case.flow.put(
            [limit(Scope.QUEUE, QUEUE, concurrency=1), limit(Scope.TASK, TASK, concurrency=1)]
        )
        await case.jobs.add([new_job(flow=NewFlow(sequence="one")), *(keyed() for _ in range(MANY))])
        await case.jobs.add([new_job(flow=NewFlow(sequence="one"), priority=-1)])
        assert len(await case.claim(limit=10)) == 1
        assert (await case.tick("ann", [], wanted(limit=10))).next_due != 0
        assert (await case.tick("bob", [], wanted(limit=0))).next_due != 0

    @promise
    async def test_claimers_at_once_never_go_beyond_a_limit(self, case: Case) -> None:
        await case.flow.put(
            [limit(Scope.QUEUE, QUEUE, concurrency=5), limit(Scope.EACH_KEY, TASK, concurrency=2)]
        )
        await case.jobs.add([keyed(f"key-{number % 5}") for number in range(MANY)])
        sessions = [await case.open() for _ in range(4)]
        done: list[str] = []

        async def work(name: str, place: int) -> None:
            jobs = sessions[place].jobs
            await case.register(name)
            held: list[JobRecord] = []
            while len(done) < MANY:
                moves = [ended(job, SUCCEEDED) for job in held]
                ticked = await case.tick_on(jobs, name, moves, wanted(limit=3))
                assert all(verdict == "accepted" for verdict in ticked.verdicts)
                done.extend(names(held))
                held = ticked.claimed
                [usage] = await case.flow.usage([gate(Scope.QUEUE, QUEUE)])
                assert usage.running <= 5
                for number in range(5):
                    [usage] = await case.flow.usage([gate(Scope.KEY, f"key-{number}")])
                    assert usage.running <= 2

        await asyncio.gather(*(work(f"worker-{place}", place) for place in range(4)))
        assert len(done) == len(set(done)) == MANY
