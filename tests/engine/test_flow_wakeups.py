"""What is freed runs at once, also where another worker freed it; nobody asks in vain meanwhile."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import Limit
from holdfast.engine.ids import new_id
from holdfast.engine.worker import Worker
from holdfast.model.flow import NewFlow, Scope
from holdfast.model.lifecycle import State
from holdfast.model.retry import Fixed
from tests.engine.rig import Gate, Rig

BATCH, MEMBER = new_id(), new_id()


class Yard:
    """One worker for queue `left`, one for `right`; neither asks by the clock."""

    def __init__(self, **settings: Any) -> None:
        self.rig = Rig(poll_seconds=3600, **settings)
        self.gate = Gate()
        self.ran: list[str] = []

        async def hold(name: str) -> None:
            await self.gate.pass_async()
            self.ran.append(name)

        async def go(name: str) -> None:
            self.ran.append(name)

        self.hold = self.rig.task(hold)
        self.go = self.rig.task(go)

    def workers(self) -> tuple[Worker, Worker]:
        left, right = (self.rig.worker(queues=(queue,)) for queue in ("left", "right"))
        return left, right

    async def quiet(self) -> int:
        """Waits until nobody sends a tick any more; how many were sent."""
        count = -1
        while count != self.rig.faults.count("tick"):
            count = self.rig.faults.count("tick")
            for _ in range(300):
                await asyncio.sleep(0)
        return count


async def after(yard: Yard) -> tuple[str, str]:
    first = await yard.rig.add(yard.hold, "first", queue="left")
    return first, await yard.rig.add(yard.go, "second", queue="right", after=[first])


async def in_sequence(yard: Yard) -> tuple[str, str]:
    first = await yard.rig.add(yard.hold, "first", queue="left", sequence_key="s")
    return first, await yard.rig.add(yard.go, "second", queue="right", sequence_key="s")


async def by_key(yard: Yard) -> tuple[str, str]:
    session = await yard.rig.memory.connect("default")
    await session.flow.put([Limit(concurrency=1).record(Scope.KEY, "k")])
    first = await yard.rig.add(yard.hold, "first", queue="left", limit_key="k")
    return first, await yard.rig.add(yard.go, "second", queue="right", limit_key="k")


async def in_batch(yard: Yard) -> tuple[str, str]:
    session = await yard.rig.memory.connect("default")
    closing = yard.rig.call(yard.go, "second", queue="right").to_new_job(BATCH)
    await session.jobs.add([replace(closing, flow=NewFlow(held=True, after_any=True))])
    member = yard.rig.call(yard.hold, "first", queue="left").in_batch(BATCH).to_new_job(MEMBER)
    await session.jobs.add([member])
    await session.flow.release(BATCH)
    return MEMBER, BATCH


@pytest.mark.parametrize("way", [after, in_sequence, by_key, in_batch])
async def test_a_job_that_is_freed_by_one_worker_runs_at_once_in_another(way: Any) -> None:
    yard = Yard()
    left, right = yard.workers()
    async with left, right:
        await yard.quiet()
        first, second = await way(yard)
        await yard.gate.wait_entered()
        before = await yard.quiet()
        assert await yard.rig.state(second) is State.SCHEDULED
        assert before < 16, "who has nothing to do does not ask again and again"
        yard.gate.open()
        await yard.rig.seen.wait("settled", job=second)
        assert await yard.quiet() - before <= 6
    assert yard.ran == ["first", "second"]
    assert await yard.rig.state(first) is State.SUCCESS


async def test_all_that_one_end_frees_is_taken_by_all_who_are_idle() -> None:
    yard = Yard(concurrency=1)
    first = await yard.rig.add(yard.hold, "first", queue="left")
    held = Gate()

    async def stay(name: str) -> None:
        yard.ran.append(name)
        await held.pass_async()

    stay_task = yard.rig.task(stay)
    for number in range(3):
        await yard.rig.add(stay_task, f"next-{number}", queue="left", after=[first])
    workers = [yard.rig.worker(queues=("left",)) for _ in range(3)]
    async with workers[0], workers[1], workers[2]:
        await yard.gate.wait_entered()
        await yard.quiet()
        yard.gate.open()
        await held.wait_entered(3)
        held.open()


async def test_a_retry_of_a_limited_job_and_what_a_rate_holds_back_come_by_the_clock_of_the_store() -> None:
    rig = Rig(poll_seconds=3600)
    times: list[str] = []

    async def work(name: str) -> None:
        times.append(name)
        if times.count(name) == 1 and name == "a":
            raise ValueError("as asked")

    task = rig.task(work, limit=Limit(rate=10, per=1), retry=Fixed(max_retries=1, wait=0.05))
    jobs = [await rig.add(task, name) for name in "abc"]
    rig.notices.listen(lambda notice: rig.clock.advance(0.1) if notice.kind == "settled" else None)
    async with rig.serving():
        for job in jobs:
            await rig.seen.wait("settled", job=job, count=2 if job == jobs[0] else 1)
    assert sorted(times) == ["a", "a", "b", "c"]
