"""An event loop in simulated time: one for each simulated thread."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor
from contextvars import Context, copy_context
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack

if TYPE_CHECKING:
    from holdfast.testing.simulation.process import SimulatedProcess

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

NEVER = float("inf")
RESOLUTION = 1e-9
SHARE_OF_BREAKS = 0.2
"""How often a loop that has more to do lets others come first, if they have something to do just then."""

SHORTEST_STEP = 1e-6
LONGEST_STEP = 1e-4
"""How many seconds one turn of a loop may take; of two that are ready, either may come first."""


class SimulatedHandle(asyncio.TimerHandle):
    """A callback that is to come. Made often, so it makes as little as it can."""

    __slots__ = ("args", "callback", "context", "is_over")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None, when: float
    ):
        self.callback = callback
        self.args = args
        self.context = copy_context() if context is None else context
        self._when = when
        self.is_over = False

    def cancel(self) -> None:
        self.is_over = True

    def cancelled(self) -> bool:
        return self.is_over

    def when(self) -> float:
        return self._when


class SimulatedLoop(asyncio.BaseEventLoop):
    """Takes turns with the other loops of the universe. Times are those of its process's clock."""

    def __init__(self, process: SimulatedProcess) -> None:
        self.process = process
        self._universe = process.universe
        self._ready: deque[SimulatedHandle] = deque()
        self._timers: list[tuple[float, int, SimulatedHandle]] = []
        self._order = count()
        self._next = NEVER
        self._asked: set[float] = set()
        self._in_turn = False
        self._is_closed = False
        self.stalled_until = 0.0

    def __repr__(self) -> str:
        return f"<SimulatedLoop of {self.process.name}>"

    def turn(self) -> None:
        """Calls what is due now, as a real loop does, with the other loops standing still."""
        universe, process = self._universe, self.process
        now = universe.now
        self._asked.discard(now)
        if self._next > now:
            return  # It has had this turn already.
        self._next = NEVER
        if process.is_dead:
            return
        if process.paused_until > now or self.stalled_until > now:
            asleep = max(process.paused_until, self.stalled_until)
            self._come(asleep + universe.chance.random() * LONGEST_STEP)
            return
        timers = self._timers
        limit = now * process.rate + process.offset + RESOLUTION
        while timers and timers[0][0] <= limit:
            handle = heappop(timers)[2]
            if not handle.is_over:
                self._ready.append(handle)
        universe.enter(process, self)
        self._in_turn = True
        self._run_ready()
        self._in_turn = False
        if not process.is_dead:
            self._arrange()

    def _run_ready(self) -> None:
        """Calls what is ready, and what becomes so thereby, if not what others have to do comes first."""
        ready, process, universe = self._ready, self.process, self._universe
        left = len(ready)
        while ready:
            handle = ready.popleft()
            left -= 1
            if not handle.is_over:
                try:
                    handle.context.run(handle.callback, *handle.args)
                except Exception as error:  # noqa: BLE001  told, as a real loop does
                    self.call_exception_handler({"message": "a callback failed", "exception": error})
                if process.steps_left is not None:
                    process.count_step()
                if process.is_dead:
                    return
            if left <= 0:
                is_crowded = universe.is_due_by(universe.now + LONGEST_STEP)
                if is_crowded and universe.chance.random() < SHARE_OF_BREAKS:
                    return
                left = len(ready)

    def _arrange(self) -> None:
        """Asks for the next turn."""
        if self._ready:
            self._come(self._universe.now + self._universe.chance.random() * LONGEST_STEP)
            return
        timers = self._timers
        while timers and timers[0][2].is_over:
            heappop(timers)
        if timers:
            # Time passes between turns, or a timer that is set for now again and again would stop it.
            self._come(max(self.process.moment(timers[0][0]), self._universe.now + SHORTEST_STEP))

    def _come(self, when: float) -> None:
        if when < self._next:
            self._next = when = max(when, self._universe.now)
            if when not in self._asked:
                self._asked.add(when)
                self._universe.at(when, self.turn)

    def time(self) -> float:
        process = self.process
        return self._universe.now * process.rate + process.offset

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> SimulatedHandle:
        if self._is_closed:
            raise RuntimeError("the event loop is closed")
        handle = SimulatedHandle(callback, args, context, 0.0)
        self._ready.append(handle)
        if not self._in_turn and self._next > self._universe.now + LONGEST_STEP:
            self._come(self._universe.now + self._universe.chance.random() * LONGEST_STEP)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> SimulatedHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> SimulatedHandle:
        if self._is_closed:
            raise RuntimeError("the event loop is closed")
        handle = SimulatedHandle(callback, args, context, when)
        heappush(self._timers, (when, next(self._order), handle))
        if not self._in_turn and self._timers[0][2] is handle:
            self._come(self.process.moment(when))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        return asyncio.Task(coro, loop=self, name=None if name is None else str(name), context=context)

    def stall(self, seconds: float) -> None:
        """Blocks this loop, and no other of its process."""
        self.stalled_until = max(self.stalled_until, self._universe.now + seconds)

    def is_running(self) -> bool:
        return not self._is_closed

    def is_closed(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        self._is_closed = True
        self._ready.clear()
        self._timers.clear()

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self._universe.complain(self.process, context)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Refuses: a thread of its own would not keep to simulated time."""
        raise NotImplementedError(
            "a thread of user code cannot be simulated; a handler that is a plain `def` can"
        )
