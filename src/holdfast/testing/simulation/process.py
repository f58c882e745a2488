"""A simulated process: its clocks, its event loops, and its end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from holdfast.engine.id_source import IdSource
from holdfast.testing.simulation.loop import SimulatedLoop
from holdfast.testing.simulation.universe import BEGINNING, Universe

MOST_CLOSES = 20


class SimulatedProcess:
    """A process with clocks of its own.

    Its monotonic one shows `now * rate + offset`; its wall clock is off by `wrong` seconds. Killed, none of
    its code runs again, not even what stands in `finally`. Paused, none runs for a while, and then its timers
    are late.
    """

    def __init__(self, universe: Universe, name: str, *, rate: float = 1.0, wrong: float = 0.0) -> None:
        self.universe = universe
        self.name = name
        self.number = 1000 + len(universe.processes)
        self.rate = rate
        self.wrong = wrong
        self.is_dead = False
        self.paused_until = 0.0
        self.is_spared = False
        """Whether the store always answers it at once."""
        self.calls_left: int | None = None
        """After how many more calls to the store it dies; None: it does not."""
        self.pauses_at: tuple[int, float] | None = None
        """After how many more calls it stands still, with the last of them in its hands, and for how long."""
        self.steps_left: int | None = None
        """The same for steps of its code."""
        self.on_death: Callable[[], None] | None = None
        self.own: dict[object, Any] = {}
        """What parts of the application keep apart for each process."""
        self._born = universe.now
        self._died: float | None = None
        self.offset = 1_000.0 * (len(universe.processes) + 1)
        self._loops: list[SimulatedLoop] = []
        chance = Random(universe.chance.getrandbits(64))
        self.draw_ids = IdSource(self.wall, chance.randbytes).draw
        universe.processes.append(self)

    def moment(self, clock: float) -> float:
        """When its clock will show that."""
        return (clock - self.offset) / self.rate

    def wall(self) -> int:
        return int((BEGINNING + self.universe.now + self.wrong) * 1_000) * 1_000_000

    @property
    def is_paused(self) -> bool:
        return self.paused_until > self.universe.now

    @property
    def main(self) -> SimulatedLoop:
        return self._loops[0]

    def make_loop(self) -> SimulatedLoop:
        """A loop of another thread."""
        loop = SimulatedLoop(self)
        self._loops.append(loop)
        return loop

    def start(self, main: Callable[[], Coroutine[Any, Any, object]]) -> SimulatedLoop:
        """Begins a thread with this coroutine."""
        loop = self.make_loop()
        loop.call_soon(lambda: self._begin(loop, main))
        return loop

    def _begin(self, loop: SimulatedLoop, main: Callable[[], Coroutine[Any, Any, object]]) -> None:
        self.own[loop] = loop.create_task(main())

    @property
    def lived(self) -> float:
        return (self.universe.now if self._died is None else self._died) - self._born

    def kill(self) -> None:
        if not self.is_dead:
            self.is_dead = True
            self._died = self.universe.now
            if self.on_death is not None:
                self.on_death()

    def count_step(self) -> None:
        """Dies if this was its last."""
        assert self.steps_left is not None
        self.steps_left -= 1
        if self.steps_left <= 0:
            self.kill()

    def pause(self, seconds: float) -> None:
        self.paused_until = max(self.paused_until, self.universe.now + seconds)

    def resume(self) -> None:
        self.paused_until = 0.0
        for loop in self._loops:
            loop.stalled_until = 0.0
            if not loop.is_closed():
                loop.call_soon(_nothing)

    def bury(self) -> None:
        """Takes apart what is left of it, once the simulation is over."""
        self.is_dead = True
        for loop in self._loops:
            if loop.is_closed():
                continue
            self.universe.enter(self, loop)
            for _ in range(MOST_CLOSES):
                # To take one apart may begin another.
                left = asyncio.all_tasks(loop)
                for task in left:
                    _take_apart(task)
                if not left:
                    break
            loop.close()


def _nothing() -> None:
    """Only asks for a turn."""


def _take_apart(task: asyncio.Task[Any]) -> None:
    """Ends the coroutine of a task, whatever its `finally` blocks say to that."""
    private: Any = task
    private._log_destroy_pending = False  # noqa: SLF001  nobody is to be told
    coroutine: Any = task.get_coro()
    for _ in range(MOST_CLOSES):
        with contextlib.suppress(Exception):  # from code that should never have run any more
            coroutine.close()
            break
    asyncio.tasks._unregister_task(task)  # noqa: SLF001  documented for just this
