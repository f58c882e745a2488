"""An application of our own for simulation: it does a little of all that Holdfast can.

What its handlers do outside of the store is noted in a World, which knows what they may do.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress

from holdfast.app import Holdfast
from holdfast.engine.context import Context
from holdfast.model.errors import LockLost, StateConflict, StoreError
from holdfast.model.events import Event
from holdfast.model.recurrence import every
from holdfast.model.retry import Exponential
from holdfast.testing.simulation.simulation import Simulation

LEASES = (2.0, 20.0, 120.0, 900.0)
LONGEST_LEASE = max(LEASES)
GROUPS = ("books", "mails")
AGGREGATES = ("ann", "bob", "cy")
TASKS = ("work", "block", "fail", "die", "outstay", "spread", "guard", "queue")


class World:
    """What handlers did, by kind. `objections` are what they should not have been able to do."""

    def __init__(self) -> None:
        self.done: defaultdict[str, set[int]] = defaultdict(set)
        self.handled: Counter[tuple[str, str]] = Counter()
        self.fence: dict[str, int] = {}
        self.late_writes = 0
        self.crash: Callable[[], Awaitable[None]] | None = None
        self.objections: list[str] = []

    def finished(self, ctx: Context[World]) -> None:
        """An attempt has come to its end."""
        self.done[ctx.job.id].add(ctx.token)

    def write(self, name: str, token: int) -> None:
        """Writes to what a lock protects, which refuses all tokens but the greatest that it has seen."""
        if token < self.fence.get(name, 0):
            self.late_writes += 1
        else:
            self.fence[name] = token

    def heard(self, group: str, event: Event[int]) -> None:
        """An event was handled with success, as far as its handler goes."""
        assert event.aggregate is not None
        assert event.version is not None
        line = group, event.aggregate
        if event.version > self.handled[line] + 1:
            self.objections.append(
                f"{group} heard {event.aggregate} {event.version} after {self.handled[line]}"
            )
        self.handled[line] = max(self.handled[line], event.version)


def make_app(simulated: random.Random, most_lease: float) -> Holdfast:
    """The application, with settings and timing drawn by chance."""
    lease = simulated.choice([each for each in LEASES if each <= most_lease])
    world = World()
    app = Holdfast(
        "memory://",
        state=world,
        lease_seconds=lease,
        poll_seconds=simulated.choice((lease / 20, lease / 4)),
        leader_lease_seconds=max(1.0, lease / 4),
        reclaim_seconds=min(5.0, lease / 10),
        concurrency=simulated.choice((1, 4, 10)),
        kill_seconds=lease / 20,
        grace_seconds=lease / 4,
        lost_limit=simulated.choice((3, 100)),
        batch=simulated.choice((3, 500)),
    )
    retry = Exponential(simulated.choice((1, 20)), base=lease / 50, factor=2, cap=lease)
    _add_plain_tasks(app, lease, retry)
    _add_other_tasks(app, lease, retry)
    _add_groups(app, lease)
    return app


def _add_plain_tasks(app: Holdfast, lease: float, retry: Exponential) -> None:
    @app.task(retry=retry)
    async def work(ctx: Context[World], length: float) -> str:
        await asyncio.sleep(length)
        ctx.progress(0.5)
        await asyncio.sleep(length)
        ctx.state.finished(ctx)
        return ctx.job.id

    @app.task(retry=retry)
    def block(ctx: Context[World], length: float) -> str:
        ctx.progress(length / lease)
        ctx.state.finished(ctx)
        return ctx.job.id

    @app.task(retry=retry)
    async def fail(ctx: Context[World], length: float) -> str:
        await asyncio.sleep(length)
        if random.random() < 0.5:
            raise RuntimeError("it failed")
        ctx.state.finished(ctx)
        return ctx.job.id

    @app.task(retry=retry)
    async def die(ctx: Context[World], length: float) -> str:
        await asyncio.sleep(length)
        if random.random() < 0.5 and ctx.state.crash is not None:
            await ctx.state.crash()
        ctx.state.finished(ctx)
        return ctx.job.id

    @app.task(retry=retry, timeout=lease / 2)
    async def outstay(ctx: Context[World], length: float) -> str:
        await asyncio.sleep(length * 3)
        ctx.state.finished(ctx)
        return ctx.job.id


def _add_other_tasks(app: Holdfast, lease: float, retry: Exponential) -> None:
    @app.task(retry=retry)
    async def spread(ctx: Context[World], length: float) -> str:
        for name in AGGREGATES:
            ctx.enqueue(app.tasks["block"].call(length))
            ctx.emit(Event(topic="news", type="spread", data=ctx.run, aggregate=name))
            await asyncio.sleep(length / 10)
        ctx.state.finished(ctx)
        return ctx.job.id

    @app.task(retry=retry)
    async def guard(ctx: Context[World], length: float) -> str:
        try:
            async with app.lock("till", ttl=max(0.5, lease / 4), wait=lease * 3) as grant:
                await asyncio.sleep(length / 4)
                ctx.state.write("till", grant.token)
        except LockLost:
            ctx.state.late_writes += 1
            raise
        ctx.state.finished(ctx)
        return ctx.job.id

    @app.task(retry=retry, sequence_by="line")
    async def queue(ctx: Context[World], line: str, length: float) -> str:
        ctx.progress(0.1, line)
        await asyncio.sleep(length)
        ctx.state.finished(ctx)
        return ctx.job.id

    @app.schedule(every(lease / 3 + 1), name="tick")
    @app.task(retry=retry)
    async def tick(ctx: Context[World]) -> str:
        ctx.state.finished(ctx)
        return ctx.job.id


def _add_groups(app: Holdfast, lease: float) -> None:
    world: World = app.state
    lasting = Exponential(1_000, base=lease / 50, factor=1, cap=lease)

    @app.on("news", group=GROUPS[0], retry=lasting)
    async def books(event: Event[int]) -> None:
        await asyncio.sleep(random.random() * lease / 50)
        if random.random() < 0.1:
            raise RuntimeError("no more ink")
        world.heard(GROUPS[0], event)

    @app.on("news", group=GROUPS[1], retry=lasting)
    def mails(event: Event[int]) -> None:
        world.heard(GROUPS[1], event)


class Client:
    """Asks for work as users do: again, under the same key, if it does not know whether it was heard."""

    def __init__(self, name: str, jobs: int) -> None:
        self._name = name
        self._jobs = jobs
        self.accepted: set[str] = set()

    async def play(self, simulation: Simulation) -> None:
        app, chance = simulation.app, simulation.random
        lease = app.settings.lease_seconds
        for number in range(self._jobs):
            await asyncio.sleep(chance.random() * lease / 2)
            match chance.randrange(8):
                case 0:
                    news = Event(topic="news", type="said", data=number, aggregate=chance.choice(AGGREGATES))
                    with suppress(StoreError):
                        await app.emit(news)
                case 1 if self.accepted:
                    deed = chance.choice((app.cancel, app.replay))
                    with suppress(StoreError, StateConflict):
                        await deed(chance.choice(sorted(self.accepted)))
                case _:
                    self.accepted.add(await self._enqueue(app, chance, f"{self._name}-{number}"))

    async def _enqueue(self, app: Holdfast, chance: random.Random, key: str) -> str:
        lease = app.settings.lease_seconds
        name = chance.choice(TASKS)
        length = chance.random() * lease * chance.choice((0.01, 0.3, 1.0))
        arguments = (chance.choice(AGGREGATES), length) if name == "queue" else (length,)
        task = app.tasks[name].using(key=key, priority=chance.randrange(3))
        while True:
            try:
                return (await task.enqueue(*arguments)).id
            except StoreError:
                await asyncio.sleep(chance.random() * lease / 10)
