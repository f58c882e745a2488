"""Promises about what operators see at a glance: how long jobs have waited, and which locks are held."""

import asyncio

from holdfast.model.flow import LimitRecord, NewFlow, Scope
from holdfast.model.records import Edit
from holdfast.model.timing import SECOND
from holdfast.testing.conformance.case import LEASE, LONG, QUEUE, TASK, Case, Promises, promise, wanted
from holdfast.testing.conformance.locks import granted, refused, wish

SLACK = 20 * SECOND
"""More than any store without a manual clock needs for a few calls."""


async def oldest(case: Case, queue: str = QUEUE) -> int | None:
    """How long the first of a queue have waited."""
    return {each.name: each.oldest for each in await case.fleet.queues()}[queue]


async def is_about(case: Case, seconds: float, queue: str = QUEUE) -> bool:
    waited = await oldest(case, queue)
    return waited is not None and seconds * SECOND <= waited < seconds * SECOND + SLACK


class WaitPromises(Promises):
    """How long the first jobs of a queue have waited."""

    @promise
    async def test_the_first_job_of_each_queue_has_waited_since_it_was_due(self, case: Case) -> None:
        await case.add(queue="a")
        case.advance(2)
        await case.add(queue="a")
        await case.add(queue="b", delay=LONG)
        await case.add(queue="c")
        case.advance(1)
        assert await is_about(case, 3, "a")
        assert await oldest(case, "b") is None
        assert await is_about(case, 1, "c")

    @promise
    async def test_one_that_becomes_due_waits_from_then_on_though_nobody_claims(self, case: Case) -> None:
        await case.add(delay=SECOND)
        case.advance(2)
        waited = await oldest(case)
        assert waited is not None
        assert SECOND <= waited < SLACK
        await case.register("ann")
        await case.tick("ann", want=wanted(tasks=("other",)))
        again = await oldest(case)
        assert again is not None
        assert waited <= again < SLACK

    @promise
    async def test_one_that_was_due_before_it_was_created_waits_since_then(self, case: Case) -> None:
        now = (await case.add(queue="other")).created
        await case.add(due=now - 10**15)
        case.advance(1)
        assert await is_about(case, 1)

    @promise
    async def test_a_job_that_others_always_come_before_is_seen(self, case: Case) -> None:
        await case.add(priority=5)
        case.advance(2)
        await case.add(priority=-7)
        await case.add(priority=0, task="other")
        assert await is_about(case, 2)
        [first] = await case.claim()
        assert first.priority == -7
        assert await is_about(case, 2)

    @promise
    async def test_what_is_claimed_finished_or_removed_waits_no_more(self, case: Case) -> None:
        jobs = [await case.add() for _ in range(3)]
        case.advance(1)
        held = await case.claim_one()
        await case.cancel(jobs[1])
        late = await case.reload(jobs[2])
        assert await case.jobs.edit(late.id, late.version, Edit(delay=LONG))
        assert await oldest(case) is None
        await case.finish(held)
        assert await case.jobs.delete(late.id)
        assert await case.fleet.queues() == []

    @promise
    async def test_a_paused_queue_waits_and_what_is_parked_does_not(self, case: Case) -> None:
        await case.flow.put([LimitRecord(scope=Scope.TASK, name=TASK, paused=True)])
        await case.add()
        await case.add(queue="later", flow=NewFlow(held=True))
        await case.add(queue="stopped", task="other")
        await case.fleet.pause("stopped")
        case.advance(2)
        assert await case.claim() == []
        assert await oldest(case) is None, "its task is paused"
        assert await oldest(case, "later") is None
        assert await is_about(case, 2, "stopped")

    @promise
    async def test_many_priorities_are_not_looked_through_for_long(self, case: Case) -> None:
        for priority in range(120):
            await case.add(priority=priority)
        await case.add(queue="next")
        case.advance(1)
        assert await is_about(case, 1)
        assert await is_about(case, 1, "next")


class HeldPromises(Promises):
    """The list of locks."""

    @promise
    async def test_locks_are_listed_by_name_with_their_holders_and_lines(self, case: Case) -> None:
        locks, other = case.session.locks, (await case.open()).locks
        assert await locks.held("", 10) == []
        names = ["b", "B", "a:1", "a/1", "holdfast.leader", "_"]
        tokens = {name: await granted(locks, wish(f"ann/{name}", name=name)) for name in names}
        for owner in ("bob", "eve"):
            await refused(other, wish(owner, name="b", place=LONG))
        await refused(other, wish("bob", name="a/1"))
        told = await other.held("", 10)
        assert [(each.name, each.owner, each.token) for each in told] == [
            (name, f"ann/{name}", tokens[name]) for name in sorted(names)
        ]
        assert all(0 < each.left <= LONG for each in told)
        assert {each.name: each.waiters for each in told if each.waiters} == {"b": 2}

    @promise
    async def test_a_page_begins_behind_a_name_and_has_no_more_than_asked_for(self, case: Case) -> None:
        locks = case.session.locks
        names = [f"lock-{number:02}" for number in range(7)]
        await asyncio.gather(*(granted(locks, wish("ann", name=name)) for name in names))
        assert [each.name for each in await locks.held("", 3)] == names[:3]
        assert [each.name for each in await locks.held(names[2], 3)] == names[3:6]
        assert [each.name for each in await locks.held(names[2] + "!", 9)] == names[3:]
        assert await locks.held(names[-1], 3) == []

    @promise
    async def test_what_is_free_or_of_another_namespace_is_not_listed(self, case: Case) -> None:
        locks = case.session.locks
        other = (await case.open(f"{case.namespace}-other")).locks
        await granted(other, wish("ann", name="theirs"))
        await granted(locks, wish("ann", name="brief", ttl=LEASE))
        token = await granted(locks, wish("ann", name="freed"))
        await granted(locks, wish("ann", name="kept"))
        await locks.release("freed", "ann", token)
        await refused(locks, wish("bob", name="brief", place=LEASE))
        await refused(locks, wish("bob", name="kept", place=LEASE))
        await refused(locks, wish("eve", name="kept", place=LONG))
        case.advance(2.5)
        [kept] = await locks.held("", 10)
        assert (kept.name, kept.waiters) == ("kept", 1), "a place that has ended does not count"
        assert [each.name for each in await other.held("", 10)] == ["theirs"]
