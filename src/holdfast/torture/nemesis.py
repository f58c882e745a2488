"""Carries out the faults of a plan, and writes down when each one began and ended, and whom it struck."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any, Final

from holdfast.app import Holdfast
from holdfast.model.errors import StoreError
from holdfast.torture.arenas.arena import Arena
from holdfast.torture.clocks import MISSING, Clocks
from holdfast.torture.crew import Crew, Member, Role
from holdfast.torture.history import Calm, Fault, Recorder
from holdfast.torture.network import Gate
from holdfast.torture.plan import GAPS, Strike, strikes
from holdfast.torture.settings import LEASE

WEIGHTS: Final = {
    Role.WORKER: 5,
    Role.CONSUMER: 2,
    Role.SCHEDULER: 1,
    Role.PRODUCER: 1,
    Role.CONTENDER: 2,
    Role.OPERATOR: 1,
}
"""How often a role is struck, each member of it."""

FREEZES: Final = (0.5 * LEASE, 3 * LEASE)
PARTITIONS: Final = (0.5, 2 * LEASE)
STARTING_SECONDS: Final = 15.0
"""How long the first fault waits, at most, for all to be at work."""
PAUSE: Final = 0.2
STARTING: Final = 0.05
"""The share of strikes that may meet a process that has done nothing yet."""
HOLDS_FILE: Final = 0.1
"""Of the freezes that would hold up everybody, because the process has the store's write lock, so many."""


class Nemesis:
    """Strikes until it is told to stop; then every fault is ended."""

    def __init__(
        self,
        seed: int,
        expected: float,
        arena: Arena,
        crew: Crew,
        clocks: Clocks,
        app: Holdfast,
        recorder: Recorder,
        tell: Callable[[str], None],
    ) -> None:
        self._arena = arena
        self._crew = crew
        self._clocks = clocks
        self._app = app
        self._recorder = recorder
        self._tell = tell
        self._kinds: dict[str, Callable[[Strike], Coroutine[Any, Any, None]]] = {
            "kill": self._kill,
            "freeze": self._freeze,
            "terminate": self._terminate,
            "freeze leader": self._freeze_leader,
            "black hole": self._partition,
            "one way": self._partition,
            "reset": self._partition,
            "delay": self._partition,
            "cut backends": self._cut_backends,
            "crash store": self._crash_store,
            "clock jump": self._clock_jump,
            "full disk": self._full_disk,
        }
        self.left_out = dict(arena.left_out)
        if not clocks.are_there:
            self.left_out["clock jump"] = MISSING
        self._plan = strikes(seed, expected, [name for name in GAPS if name not in self.left_out])
        self._frozen: set[str] = set()
        self._store_busy = asyncio.Lock()
        self.begun: float | None = None
        """When the first fault may strike; None before that."""
        self.counts: dict[str, int] = dict.fromkeys(GAPS, 0)

    async def strike(self) -> None:
        """Carries out one fault after another, several at once, until cancelled; ends those under way."""
        await asyncio.to_thread(self._crew.wait_until_at_work, STARTING_SECONDS)
        self.begun = begun = monotonic()
        try:
            async with asyncio.TaskGroup() as group:
                for strike in self._plan:
                    await asyncio.sleep(begun + strike.at - monotonic())
                    group.create_task(self._kinds[strike.name](strike))
        finally:
            self._heal()

    def _heal(self) -> None:
        """What a fault that was cut short may have left: nothing is frozen, late, or wrong any more."""
        for member in self._crew.members:
            member.send(signal.SIGCONT, with_children=True)
            self._clocks_right(member)
        self._frozen.clear()
        if self._arena.gates is not None:
            self._arena.gates.heal()
        self._recorder.write(Calm())

    def _clocks_right(self, member: Member) -> None:
        if self._clocks.are_there:
            self._clocks.set(member.part.name, 0)

    @asynccontextmanager
    async def _told(self, strike: Strike, target: str, **facts: bool | float | str) -> AsyncGenerator[None]:
        """Writes down the beginning and the end."""
        self.counts[strike.name] += 1
        self._tell(f"{strike.name}: {target}")
        self._recorder.write(Fault(name=strike.name, target=target, phase="begin", facts={**facts}))
        try:
            yield
        finally:
            self._recorder.write(Fault(name=strike.name, target=target, phase="end"))

    def _once(self, strike: Strike, target: str, count: int = 1, **facts: bool | float | str) -> None:
        self.counts[strike.name] += 1
        self._tell(f"{strike.name}: {target}")
        self._recorder.write(
            Fault(name=strike.name, target=target, phase="once", count=count, facts={**facts})
        )

    async def _victim(self, draw: random.Random) -> Member:
        """One to strike, as soon as there is one."""
        while (member := self._choose(draw)) is None:  # noqa: ASYNC110  files tell who is at work
            await asyncio.sleep(PAUSE)
        return member

    def _choose(self, draw: random.Random) -> Member | None:
        """One who is not frozen, and seldom one who is still starting: slow machines would do no work."""
        free = [each for each in self._crew.of() if each.part.name not in self._frozen]
        if draw.random() >= STARTING:
            free = [each for each in free if self._crew.is_at_work(each)]
        return draw.choices(free, [WEIGHTS[each.role] for each in free])[0] if free else None

    async def _kill(self, strike: Strike) -> None:
        draw = strike.random
        member = await self._victim(draw)
        with_children = draw.random() < 0.5
        self._once(strike, member.who, with_children=with_children)
        member.was_struck = True
        member.send(signal.SIGKILL, with_children=with_children)

    async def _terminate(self, strike: Strike) -> None:
        """One SIGTERM; sometimes a second one soon after, which cuts short what runs."""
        draw = strike.random
        member = await self._victim(draw)
        is_twice = draw.random() < 0.3
        self._once(strike, member.who, twice=is_twice)
        member.was_struck = True
        member.send(signal.SIGTERM)
        if is_twice:
            await asyncio.sleep(draw.uniform(0, 0.5))
            member.send(signal.SIGTERM)

    async def _freeze(self, strike: Strike) -> None:
        draw = strike.random
        member = await self._victim(draw)
        await self._freeze_member(strike, member, draw)

    async def _freeze_leader(self, strike: Strike) -> None:
        """Freezes whoever leads, for longer than its term can last."""
        try:
            async with asyncio.timeout(1):
                leader = await self._app.leader()
        except (StoreError, TimeoutError):
            return
        name = "" if leader is None else leader.worker
        for member in self._crew.of(Role.SCHEDULER):
            if f"-{member.pid}-" in name and member.part.name not in self._frozen:
                await self._freeze_member(strike, member, strike.random, least=1.2 * LEASE)

    async def _freeze_member(
        self, strike: Strike, member: Member, draw: random.Random, least: float = FREEZES[0]
    ) -> None:
        seconds = draw.uniform(least, FREEZES[1])
        may_hold = draw.random() < HOLDS_FILE
        name, pid = member.part.name, member.pid
        self._frozen.add(name)
        try:
            holds = await self._stop(member, may_hold=may_hold)
            if holds is None:
                return
            async with self._told(strike, member.who, seconds=seconds, holds_store=holds):
                await asyncio.sleep(seconds)
        finally:
            if member.pid == pid:
                member.send(signal.SIGCONT, with_children=True)
            self._frozen.discard(name)

    async def _stop(self, member: Member, *, may_hold: bool) -> bool | None:
        """Stops it, not while it keeps all others from the store unless it may; None if that was not to be.

        Whether it does keep them.
        """
        for _ in range(5):
            member.send(signal.SIGSTOP, with_children=True)
            if await asyncio.to_thread(self._arena.is_free):
                return False
            if may_hold:
                return True
            member.send(signal.SIGCONT, with_children=True)
            await asyncio.sleep(0.05)
        return None

    async def _partition(self, strike: Strike) -> None:
        draw = strike.random
        member = await self._victim(draw)
        assert self._arena.gates is not None
        gate = self._arena.gates.of(member.part.name)
        way = draw.choice(("asking", "answering")) if strike.name == "one way" else "both"
        seconds = draw.uniform(*PARTITIONS)
        telling = self._told(strike, member.who, seconds=seconds, way=way)
        async with telling, _fault(gate, strike.name, way, draw):
            await asyncio.sleep(seconds)

    async def _cut_backends(self, strike: Strike) -> None:
        try:
            cut = await self._arena.cut_backends(strike.random)
        except OSError:
            return  # the server is down, or just coming back
        self._once(strike, "store", count=cut)

    async def _crash_store(self, strike: Strike) -> None:
        async with self._store_busy, self._told(strike, "store"):
            await self._arena.crash()
            await asyncio.sleep(strike.random.uniform(0, 1))
            await asyncio.shield(self._arena.recover())

    async def _full_disk(self, strike: Strike) -> None:
        seconds = strike.random.uniform(1, 2.5 * LEASE)
        async with self._store_busy, self._told(strike, "store", seconds=seconds):
            await asyncio.to_thread(self._arena.shrink)
            try:
                await asyncio.sleep(seconds)
            finally:
                self._arena.grow()
            await asyncio.shield(self._arena.recover())

    async def _clock_jump(self, strike: Strike) -> None:
        draw = strike.random
        member = await self._victim(draw)
        jump = draw.choice((-1, 1)) * draw.choice((draw.uniform(0, 2 * LEASE), 3600.0))
        async with self._told(strike, member.who, seconds=jump):
            self._clocks.set(member.part.name, jump)
            try:
                await asyncio.sleep(draw.uniform(1, 3 * LEASE))
            finally:
                self._clocks_right(member)


@asynccontextmanager
async def _fault(gate: Gate, name: str, way: str, draw: random.Random) -> AsyncGenerator[None]:
    """The gate as it is during the fault."""
    if name == "delay":
        gate.delay = draw.uniform(0.02, 0.3)
    elif name == "reset":
        gate.fall_down()
    else:
        gate.silence(asking=way != "answering", answering=way != "asking")
    try:
        yield
    finally:
        gate.heal()
