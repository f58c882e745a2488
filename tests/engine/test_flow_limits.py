"""Limits as workers keep them: several in a process, with prefetched jobs, retries, crashes and changes."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Limit
from holdfast.engine.appetite import Appetite
from holdfast.engine.limits import Limits
from holdfast.model.flow import Scope, Usage
from holdfast.model.lifecycle import State
from holdfast.model.retry import Fixed
from holdfast.model.task import TaskDefinition
from holdfast.stores.memory.store import steady_clock
from tests.engine.rig import Gate, Rig


class Crowd:
    """How many attempts of each key run now, and how many ran at most."""

    def __init__(self) -> None:
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.done: list[str] = []

    async def visit(self, key: str, turns: int = 0) -> None:
        self.now[key] += 1
        self.most[key] = max(self.most[key], self.now[key])
        for _ in range(turns):
            await asyncio.sleep(0)
        self.now[key] -= 1
        self.done.append(key)

    def task(self, rig: Rig, **options: Any) -> TaskDefinition:
        async def visit(key: str) -> None:
            await self.visit(key)

        return rig.task(visit, **options)


async def limits(rig: Rig) -> Limits:
    session = await rig.memory.connect("default")
    return Limits(lambda: session)


async def drain(rig: Rig, workers: int) -> None:
    ended = await asyncio.gather(*(rig.worker().run(until_idle=True) for _ in range(workers)))
    assert ended == [0] * workers


@pytest.fixture
def _claims_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Appetite, "_prefetch", lambda self: 5)


@pytest.mark.usefixtures("_claims_ahead")
async def test_a_limit_holds_for_several_workers_that_claim_ahead() -> None:
    rig = Rig(steady_clock(), concurrency=4)
    crowd = Crowd()
    keys = [f"key-{number}" for number in range(3)]
    flow = (await rig.memory.connect("default")).flow
    leased: list[int] = []

    async def visit(key: str, turns: int) -> None:
        usage = await flow.usage([f"key:{key}" for key in keys])
        leased.append(max(each.running for each in usage))
        await crowd.visit(key, turns)

    task = rig.task(visit, key_limit=Limit(concurrency=3))
    for number in range(120):
        await rig.add(task, keys[number % 3], number % 7, limit_key=keys[number % 3])
    await drain(rig, 3)
    assert Counter(crowd.done) == dict.fromkeys(keys, 40)
    assert max(crowd.most.values()) <= 3
    assert max(leased) == 3


async def test_jobs_that_a_limit_holds_back_do_not_keep_the_slots_from_others() -> None:
    rig = Rig(concurrency=4)
    gate = Gate()
    ran: list[str] = []

    async def hold() -> None:
        await gate.pass_async()

    async def other() -> None:
        ran.append("other")

    held, free = rig.task(hold, limit=Limit(concurrency=1)), rig.task(other)
    for _ in range(50):
        await rig.add(held, priority=-1)
    last = await rig.add(free)
    async with rig.serving():
        await gate.wait_entered()
        await rig.seen.wait("settled", job=last)
        assert ran == ["other"]
        [usage] = await (await rig.memory.connect("default")).flow.usage(["task:hold"])
        assert usage == Usage(running=1, parked=49)
        gate.open()


async def test_a_limit_that_is_raised_and_lowered_counts_for_what_comes_next() -> None:
    rig = Rig(concurrency=8, poll_seconds=3600)
    gates = [Gate() for _ in range(6)]
    turn = iter(gates)

    async def hold() -> None:
        await next(turn).pass_async()

    task = rig.task(hold)
    steer = await limits(rig)
    await steer.set(task="hold", concurrency=1)
    jobs = [await rig.add(task) for _ in range(6)]
    async with rig.serving():
        await gates[0].wait_entered()
        await steer.set(task="hold", concurrency=3)
        await gates[2].wait_entered()
        assert await running(rig, jobs) == 3
        await steer.set(task="hold", concurrency=1)
        gates[0].open()
        gates[1].open()
        await rig.seen.wait("settled", count=2)
        assert await running(rig, jobs) == 1
        gates[2].open()
        await gates[3].wait_entered()
        assert await running(rig, jobs) == 1
        await steer.remove(task="hold")
        await gates[5].wait_entered()
        for gate in gates:
            gate.open()
        await rig.seen.wait("settled", count=6)


async def running(rig: Rig, jobs: list[str]) -> int:
    return [await rig.state(job) for job in jobs].count(State.CLAIMED)


async def test_a_job_that_waits_for_its_next_attempt_leaves_its_place_to_another() -> None:
    rig = Rig(concurrency=4)
    ran: list[int] = []

    async def stumble(number: int) -> None:
        ran.append(number)
        if ran.count(number) == 1:
            raise ValueError("as asked")

    task = rig.task(stumble, retry=Fixed(max_retries=1, wait=60), limit=Limit(concurrency=1))
    jobs = [await rig.add(task, number) for number in range(3)]
    await rig.drain()
    assert ran == [0, 1, 2]
    rig.clock.advance(60)
    await rig.drain()
    assert ran == [0, 1, 2, 0, 1, 2]
    assert [await rig.state(job) for job in jobs] == [State.SUCCESS] * 3


async def test_the_place_of_a_dead_worker_is_free_when_its_lease_is_taken_back() -> None:
    rig = Rig(concurrency=4, lease_seconds=30)
    crowd = Crowd()
    task = crowd.task(rig, limit=Limit(concurrency=1))
    first, second = [await rig.add(task, "key") for _ in range(2)]
    rig.faults.die_at(3, after=True)  # register, the claim; it dies when it tells of the end
    worker = asyncio.create_task(rig.worker().run(until_idle=True))
    await rig.faults.died.wait()
    worker.cancel()
    rig.next_process()
    await rig.drain()
    states = [await rig.state(job) for job in (first, second)]
    leased = [state for state in states if state is State.CLAIMED]
    assert len(leased) <= 1
    rig.clock.advance(31)
    await rig.reclaim()
    await rig.drain()
    assert [await rig.state(job) for job in (first, second)] == [State.SUCCESS] * 2
    assert crowd.most["key"] == 1


async def test_a_rate_lets_bursts_through_by_the_clock_of_the_store() -> None:
    rig = Rig(concurrency=10)
    crowd = Crowd()
    task = crowd.task(rig, limit=Limit(rate=2, per=10, burst=3))
    for _ in range(9):
        await rig.add(task, "key")
    done: list[int] = []
    for _ in range(6):
        await rig.drain()
        done.append(len(crowd.done))
        rig.clock.advance(5)
    assert done == [3, 4, 5, 6, 7, 8]
    rig.clock.advance(3600)
    await rig.drain()
    assert len(crowd.done) == 9


async def test_a_worker_asks_nothing_in_vain_while_all_is_parked() -> None:
    rig = Rig(concurrency=4, poll_seconds=3600)
    gate = Gate()

    async def hold() -> None:
        await gate.pass_async()

    task = rig.task(hold, limit=Limit(concurrency=1), key_limit=Limit(concurrency=1))
    jobs = [await rig.add(task, limit_key=f"key-{number % 5}") for number in range(200)]
    async with rig.serving(), rig.serving():
        await gate.wait_entered()
        await rig.seen.wait("claimed")
        await settled(rig)
        before = rig.faults.count("tick")
        assert before < 20
        for _ in range(2_000):
            await asyncio.sleep(0)
        assert rig.faults.count("tick") == before
        gate.open()
        for job in jobs:
            await rig.seen.wait("settled", job=job)
        # One tick for each end, and for the worker that each of them wakes in vain.
        assert rig.faults.count("tick") - before < 3 * len(jobs) + 20


async def settled(rig: Rig) -> None:
    """Waits until nobody sends a tick any more."""
    count = -1
    while count != rig.faults.count("tick"):
        count = rig.faults.count("tick")
        for _ in range(500):
            await asyncio.sleep(0)


async def test_what_stands_in_code_counts_again_after_a_pause() -> None:
    rig = Rig()

    async def work() -> None: ...

    task = rig.task(work, limit=Limit(concurrency=3))
    await rig.drain()
    steer = await limits(rig)
    await steer.pause(task="work")
    job = await rig.add(task)
    await rig.drain()
    assert await rig.state(job) is State.SCHEDULED, "a start of a worker ends no pause"
    [limit] = await steer.list()
    assert (limit.paused, limit.concurrency) == (True, 3)
    await steer.resume(task="work")
    await rig.drain()
    assert await rig.state(job) is State.SUCCESS
    rig.registry = type(rig.registry)()
    rig.task(work, limit=Limit(concurrency=5))
    await rig.drain()
    [limit] = await steer.list()
    assert (limit.concurrency, limit.declared) == (5, True)


async def test_a_limit_that_is_written_while_its_task_is_paused_counts_when_that_is_resumed() -> None:
    rig = Rig()
    steer = await limits(rig)
    await steer.pause(task="work")
    [limit] = await steer.list()
    assert (limit.paused, limit.declared) == (True, False)

    async def work() -> None: ...

    rig.task(work, limit=Limit(concurrency=2))
    await rig.drain()
    await steer.resume(task="work")
    [limit] = await steer.list()
    assert (limit.scope, limit.concurrency, limit.paused) == (Scope.TASK, 2, False)


Pause = Callable[[Rig], Any]


async def pause_task(rig: Rig) -> None:
    await (await limits(rig)).pause(task="hold")


async def pause_queue(rig: Rig) -> None:
    await (await rig.memory.connect("default")).fleet.pause("default")


async def resume_task(rig: Rig) -> None:
    await (await limits(rig)).resume(task="hold")


async def resume_queue(rig: Rig) -> None:
    await (await rig.memory.connect("default")).fleet.resume("default")


@pytest.mark.parametrize(
    ("pause", "resume"), [(pause_task, resume_task), (pause_queue, resume_queue)], ids=["task", "queue"]
)
@pytest.mark.usefixtures("_claims_ahead")
async def test_what_was_claimed_ahead_goes_back_when_paused_though_all_slots_are_busy(
    pause: Pause, resume: Pause
) -> None:
    rig = Rig(concurrency=2, poll_seconds=0.05, prefetch_seconds=600)
    gate = Gate()

    async def hold() -> None:
        await gate.pass_async()

    task = rig.task(hold)
    jobs = [await rig.add(task) for _ in range(7)]
    async with rig.serving():
        await gate.wait_entered(2)
        for job in jobs:
            await rig.seen.wait("claimed", job=job)
        await pause(rig)
        await rig.seen.wait("settled", count=5)
        states = Counter([await rig.state(job) for job in jobs])
        assert states[State.SCHEDULED] == 5
        gate.open()
        await rig.seen.wait("settled", count=7)
        await settled(rig)
        assert len(rig.seen.of("claimed")) == 7, "nothing is claimed while it is paused"
        await resume(rig)
        await rig.seen.wait("settled", count=12)
    assert [await rig.state(job) for job in jobs] == [State.SUCCESS] * 7
