"""A process dies before or after any of its writes: the next one loses nothing and records nothing twice."""

import asyncio
from collections import Counter

import pytest

from holdfast.engine.context import Context
from holdfast.model.errors import OutcomeUnknown
from holdfast.model.lifecycle import State
from holdfast.model.records import Query
from holdfast.model.retry import Immediate
from tests.engine.rig import Rig
from tests.engine.test_suspects import suspected


class Scene:
    """Jobs of all kinds: plain, failing once, with a child, suspect, and one to be cancelled."""

    def __init__(self) -> None:
        self.rig = Rig(concurrency=3, kill_seconds=0.01)
        self.runs: Counter[str] = Counter()
        self.jobs: list[str] = []

    async def set(self) -> None:
        rig, runs = self.rig, self.runs

        async def plain(ctx: Context) -> None:
            runs[ctx.job.id] += 1

        async def fails_once(ctx: Context) -> None:
            runs[ctx.job.id] += 1
            if ctx.job.failures == 0 and runs[ctx.job.id] == 1:
                raise ValueError("the first time")

        def blocking(ctx: Context) -> str:
            runs[ctx.job.id] += 1
            return ctx.enqueue(rig.call(child))

        child = rig.task(plain, name="child")
        tasks = [
            rig.task(plain),
            rig.task(fails_once, retry=Immediate()),
            rig.task(blocking),
            rig.task(plain, name="suspect"),
            rig.task(plain, name="cancelled"),
        ]
        self.jobs = [await rig.add(task) for task in tasks]
        suspected(rig, self.jobs[3])
        rig.memory._shelves["default"].jobs[self.jobs[4]].cancel_asked = True

    async def check(self) -> None:
        rig = self.rig
        *done, cancelled = self.jobs
        for job in done:
            assert await rig.state(job) is State.SUCCESS
            outcomes = Counter(await rig.outcomes(job))
            assert outcomes["success"] == 1
            assert self.runs[job] >= 1
        assert await rig.state(cancelled) is State.CANCELLED
        assert self.runs[cancelled] == 0
        session = await rig.memory.connect("default")
        children = await session.jobs.find(Query(task="child"))
        assert [child.state for child in children] == [State.SUCCESS], "one child, of the attempt that counts"
        assert not rig.memory._shelves["default"].leases


async def mutations() -> int:
    scene = Scene()
    await scene.set()
    assert await scene.rig.drain() == 0
    await scene.check()
    return scene.rig.faults.mutations


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_crash_at_any_write_loses_no_job_and_completes_none_twice(after: bool) -> None:
    total = await mutations()
    assert total >= 6
    for mutation in range(1, total + 1):
        scene = Scene()
        rig = scene.rig
        await scene.set()
        rig.faults.die_at(mutation, after=after)
        running = asyncio.create_task(rig.drain())
        died = asyncio.create_task(rig.faults.died.wait())
        await asyncio.wait({running, died}, return_when=asyncio.FIRST_COMPLETED)
        for task in (running, died):
            task.cancel()
        await asyncio.wait({running, died})
        rig.next_process()
        rig.clock.advance(1000)
        await rig.reclaim()
        assert await rig.drain() == 0
        await scene.check()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_reply_lost_at_any_write_changes_nothing(after: bool) -> None:
    total = await mutations()
    for number in range(1, total + 1):
        scene = Scene()
        await scene.set()
        ticks = 0

        def is_it(_: object) -> bool:
            nonlocal ticks
            ticks += 1
            return ticks == number  # noqa: B023  called in this round only

        error = OutcomeUnknown("lost")
        plan = {"after": error} if after else {"before": error}
        scene.rig.faults.plan("tick", when=is_it, **plan)
        assert await scene.rig.drain() == 0
        await scene.check()
        assert all(runs <= 2 for runs in scene.runs.values())
        assert [scene.runs[job] for job in scene.jobs] == [1, 2, 1, 1, 0], "no attempt is made twice"
