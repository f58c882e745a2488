"""A worker that is brought, step by step, to have a tick in flight on each of its two lines."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from holdfast.engine.worker import Worker
from holdfast.model.records import Tick
from tests.engine.faulty import Plan
from tests.engine.rig import PATIENCE, Rig

FIRST, SECOND = "a", "bc"
ON_STAGE = "abcd"
"""Attempts that run at the beginning. The end of `a` is a tick of its own; `b` and `c` are a crowd."""


async def turns(count: int = 100) -> None:
    """Lets the event loop go round so often that whatever could happen now has happened."""
    for _ in range(count):
        await asyncio.sleep(0)


def ends(*jobs: str) -> Callable[[Tick], bool]:
    """Whether a tick tells the end of one of these."""
    return lambda tick: any(move.job in jobs and move.outcome is not None for move in tick.moves)


def starts(*jobs: str) -> Callable[[Tick], bool]:
    return lambda tick: any(move.job in jobs and move.outcome is None for move in tick.moves)


class Stage:
    """As many slots as there are on stage, as many in a batch, and half as many reports are a crowd.

    Nothing is asked for by the clock.
    """

    def __init__(self, on_stage: str = ON_STAGE, **settings: Any) -> None:
        size = len(on_stage)
        self.rig = Rig(concurrency=size, batch=size, poll_seconds=3600, lease_seconds=600, **settings)
        self._on_stage = on_stage
        self.jobs: dict[str, str] = {}
        self.runs: Counter[str] = Counter()
        self._doors: dict[str, asyncio.Event] = {}

        async def waits(name: str) -> None:
            self.runs[name] += 1
            await self._doors[name].wait()

        self._task = self.rig.task(waits)
        self.running: asyncio.Task[int] | None = None

    async def add(self, names: str) -> None:
        """Jobs that wait for a slot behind those on stage."""
        for name in names:
            self._doors[name] = asyncio.Event()
            self.jobs[name] = await self.rig.add(self._task, name)

    async def begin(self, *, until_idle: bool = False, **worker: Any) -> Worker:
        await self.add(self._on_stage)
        serving = self.rig.worker(**worker)
        self.running = asyncio.create_task(serving.run(until_idle=until_idle))
        for name in self._on_stage:
            await self.rig.seen.wait("claimed", job=self.jobs[name])
        await turns()
        assert self.runs == Counter(self._on_stage)
        return serving

    def end(self, names: str) -> None:
        """Lets these attempts end."""
        for name in names:
            self._doors[name].set()

    async def send(self, names: str, **fault: Any) -> Plan:
        """Lets them end, and waits until the tick that tells so has met its fate."""
        plan = self.rig.faults.plan("tick", when=ends(*self.ids(names)), **fault)
        self.end(names)
        await reached(plan)
        return plan

    async def both_in_flight(self) -> tuple[asyncio.Event, asyncio.Event]:
        """Two ticks that the store has done and not answered; they are, once these are set."""
        first, second = asyncio.Event(), asyncio.Event()
        await self.send(FIRST, gate=first)
        await self.send(SECOND, gate=second)
        return first, second

    def ids(self, names: str) -> list[str]:
        return [self.jobs[name] for name in names]

    async def outcomes(self, names: str) -> list[list[str]]:
        return [await self.rig.outcomes(job) for job in self.ids(names)]

    async def settled(self, names: str) -> None:
        for job in self.ids(names):
            await self.rig.seen.wait("settled", job=job)

    async def finish(self) -> int:
        """Lets everything end, and the worker when all is told."""
        assert self.running is not None
        self.end("".join(self._doors))
        async with asyncio.timeout(PATIENCE):
            return await self.running


async def reached(plan: Plan) -> None:
    assert await asyncio.to_thread(plan.reached.wait, PATIENCE)
