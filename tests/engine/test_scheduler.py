"""The leader's duty: what is due is fired once, in time, under the term, and never drifts."""

import asyncio
import random
from typing import Any

import msgspec
import pytest

from holdfast.engine.ids import new_id
from holdfast.engine.notices import Notices
from holdfast.engine.scheduler import Scheduler
from holdfast.model import schedule as rules
from holdfast.model.errors import LeaseLost
from holdfast.model.lifecycle import SUCCEEDED, Ending, State
from holdfast.model.plan import Plan, firing_id, firing_of
from holdfast.model.records import JobRecord, LockWish, Move, Query, Tick, Verdict, Want, WorkerRecord
from holdfast.model.recurrence import Recurrence, every
from holdfast.model.scheduling import Schedules, Term
from holdfast.model.task import Call, define
from holdfast.model.timing import SECOND
from holdfast.stores.memory import MemoryStore
from holdfast.stores.memory.store import MemorySession
from holdfast.testing import ManualClock

LONG = 10**9 * SECOND


def work() -> None:
    """What is scheduled."""


class Scene:
    """A store with a clock that is moved by hand, one leader, and its scheduler."""

    clock: ManualClock
    session: MemorySession
    term: Term
    scheduler: Scheduler

    @classmethod
    async def make(cls) -> "Scene":
        scene = cls()
        scene.clock = ManualClock()
        scene.session = await MemoryStore(scene.clock).connect("default")
        scene.term = await scene.lead("ann")
        scene.notices = Notices()
        scene.scheduler = Scheduler(scene.session.schedules, 1.0, scene.notices)
        return scene

    notices: Notices

    async def lead(self, owner: str) -> Term:
        answer = await self.session.locks.acquire(LockWish(name="l", owner=owner, ttl=LONG, place=0))
        assert answer.token is not None
        return Term(lock="l", owner=owner, token=answer.token)

    async def put(self, name: str, recurrence: Recurrence, **options: Any) -> int:
        """Stores a schedule; when."""
        plan = Plan.of(rules.schedule(name, recurrence, **options), Call(define(work), b"[[],{}]"))
        now = self.clock()
        write = plan.write(rules.begin(plan.schedule, now), None, new_id())
        assert await self.session.schedules.write([write]) == [Verdict.ACCEPTED]
        return now

    async def turn(self) -> float:
        return await self.scheduler.turn(self.term)

    async def jobs(self) -> list[JobRecord]:
        """All of them, oldest first."""
        return (await self.session.jobs.find(Query(limit=100_000)))[::-1]

    async def finish(self, job: JobRecord) -> JobRecord:
        worker = WorkerRecord(id="w", host="h", pid=1, queues=("default",), tasks=("work",), concurrency=1)
        await self.session.fleet.register(worker, LONG)
        want = Want(queues=("default",), tasks=frozenset({"work"}), limit=1, lease=LONG)
        [held] = (await self.session.jobs.tick(Tick(worker="w", seq=1, moves=[], want=want))).claimed
        assert held.id == job.id
        move = Move(job=held.id, token=held.token, path=SUCCEEDED, outcome=Ending.SUCCESS, elapsed=0)
        await self.session.jobs.tick(Tick(worker="w", seq=2, moves=[move]))
        stored = await self.session.jobs.get(job.id)
        assert stored is not None
        return stored


async def test_ten_thousand_firings_at_a_rate_do_not_drift() -> None:
    scene = await Scene.make()
    interval = 7 * SECOND + 1
    start = await scene.put("tick", every(interval / SECOND), overlap="allow", misfire="all")
    draw = random.Random("drift")
    fired = 0
    while fired < 10_000:
        scene.clock.advance(draw.expovariate(1 / 10))
        await scene.turn()
        fired = (scene.clock() - start) // interval
    jobs = await scene.jobs()
    assert [job.due for job in jobs] == [start + number * interval for number in range(1, len(jobs) + 1)]
    assert len(jobs) == fired
    assert [job.id for job in jobs] == [firing_id("tick", job.due) for job in jobs]


async def test_a_leader_whose_term_is_over_writes_nothing() -> None:
    scene = await Scene.make()
    await scene.put("tick", every(1))
    scene.clock.advance(1)
    await scene.session.locks.release("l", "ann", scene.term.token)
    await scene.lead("bob")
    with pytest.raises(LeaseLost):
        await scene.turn()
    assert await scene.jobs() == []


async def test_of_two_who_saw_the_same_one_fires() -> None:
    scene = await Scene.make()
    await scene.put("tick", every(1))
    scene.clock.advance(1)
    await asyncio.gather(*(scene.turn() for _ in range(5)))
    [job] = await scene.jobs()
    firing = firing_of(job)
    assert firing is not None
    assert (firing.schedule, firing.due.timestamp() * SECOND) == ("tick", job.due)


async def test_a_leader_that_saw_one_before_it_was_removed_leaves_its_successor_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = await Scene.make()
    await scene.put("tick", every(10))
    scene.clock.advance(10)
    old = await scene.session.schedules.due(9)
    assert await scene.session.schedules.remove("tick")
    put = await scene.put("tick", every(60))

    async def as_seen(limit: int) -> Schedules:
        return old

    with monkeypatch.context() as patched:
        patched.setattr(scene.session.schedules, "due", as_seen)
        await scene.turn()
    assert await scene.jobs() == []
    scene.clock.advance(60)
    await scene.turn()
    assert [job.due for job in await scene.jobs()] == [put + 60 * SECOND]


async def test_it_looks_again_when_the_next_one_is_due_and_no_later_than_the_poll() -> None:
    scene = await Scene.make()
    assert await scene.turn() == 10.0, "there are none"
    await scene.put("far", every(60))
    assert await scene.turn() == 1.0
    await scene.put("near", every(1.5))
    scene.clock.advance(1)
    assert await scene.turn() == 0.5


async def test_many_due_at_once_are_fired_in_batches_in_the_order_of_their_due_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Deciding takes no time, however slow the machine is.
    monkeypatch.setattr("holdfast.engine.surroundings.now", lambda: 0.0)
    scene = await Scene.make()
    for number in range(700):
        await scene.put(f"s{number:03}", every(10 + number / 1_000))
    scene.clock.advance(20)
    turns = 0
    while await scene.turn() == 0:
        turns += 1
    assert turns == 2
    assert len(await scene.jobs()) == 700


async def test_after_downtime_once_fires_the_latest_and_counts_the_rest() -> None:
    scene = await Scene.make()
    start = await scene.put("tick", every(1))
    scene.clock.advance(100.5)
    await scene.turn()
    [job] = await scene.jobs()
    assert job.due == start + 100 * SECOND
    [record] = (await scene.session.schedules.get(["tick"])).records
    state = msgspec.json.decode(record.state)
    assert (state["missed"], record.look_at) == (99, start + 101 * SECOND)


async def test_a_queued_firing_waits_for_the_end_of_the_run_before_it() -> None:
    scene = await Scene.make()
    await scene.put("tick", every(1), overlap="queue")
    scene.clock.advance(1)
    await scene.turn()
    [first] = await scene.jobs()
    scene.clock.advance(1)
    await scene.turn()
    assert len(await scene.jobs()) == 1
    await scene.finish(first)
    await scene.turn()
    assert [job.state for job in await scene.jobs()] == [State.SUCCESS, State.SCHEDULED]


@pytest.mark.parametrize("anchor", ["start", "end"])
async def test_an_interval_after_the_run_counts_from_its_start_or_its_end(anchor: Any) -> None:
    scene = await Scene.make()
    await scene.put("tick", every(10, anchor=anchor))
    scene.clock.advance(10)
    await scene.turn()
    [first] = await scene.jobs()
    scene.clock.advance(25)
    await scene.turn()
    assert len(await scene.jobs()) == 1, "nothing is due while it runs"
    done = await scene.finish(first)
    await scene.turn()
    [record] = (await scene.session.schedules.get(["tick"])).records
    assert record.look_at == (done.started if anchor == "start" else done.finished) + 10 * SECOND  # type: ignore[operator]


async def test_a_schedule_whose_job_was_deleted_goes_on() -> None:
    scene = await Scene.make()
    await scene.put("tick", every(10, anchor="end"))
    scene.clock.advance(10)
    await scene.turn()
    [first] = await scene.jobs()
    await scene.session.jobs.delete(first.id)
    await scene.turn()
    [record] = (await scene.session.schedules.get(["tick"])).records
    assert record.look_at == scene.clock() + 10 * SECOND


async def test_one_that_cannot_be_read_is_left_alone_and_holds_up_no_other() -> None:
    scene = await Scene.make()
    await scene.put("bad", every(1))
    await scene.put("good", every(1))
    [bad] = (await scene.session.schedules.get(["bad"])).records
    plan = Plan.of(rules.schedule("bad", every(1)), Call(define(work), b"[[],{}]"))
    write = plan.write(rules.begin(plan.schedule, scene.clock()), bad, new_id())
    odd = msgspec.structs.replace(write, definition=b'{"schedule": {"type": "moon"}}')
    await scene.session.schedules.write([odd])
    scene.clock.advance(1)
    await scene.turn()
    [job] = await scene.jobs()
    assert job.id == firing_id("good", job.due)
    assert await scene.turn() == 1.0, "it does not spin"
    [left] = (await scene.session.schedules.get(["bad"])).records
    assert left.definition == odd.definition
