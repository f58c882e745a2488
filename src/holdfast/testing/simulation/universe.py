"""Simulated time, and whose turn it is. Nothing else decides what happens next but the seed."""

from __future__ import annotations

import heapq
from asyncio import _set_running_loop as set_running_loop  # pyright: ignore[reportPrivateUsage]  for loops
from collections.abc import Callable
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.testing.simulation.loop import SimulatedLoop
    from holdfast.testing.simulation.process import SimulatedProcess

BEGINNING = 1_700_000_000
"""When every simulation begins, in seconds since 1970."""


class Universe:
    """All simulated processes, and what is to happen to them. `now` is in seconds since the beginning."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.now = 0.0
        self.processes: list[SimulatedProcess] = []
        self.complaints: list[str] = []
        self.on_enter: Callable[[SimulatedProcess], None] | None = None
        self.turns = 0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._current: SimulatedProcess | None = None
        self._running: SimulatedLoop | None = None

    @property
    def current(self) -> SimulatedProcess:
        """The process whose turn it is."""
        assert self._current is not None, "no simulated process runs now"
        return self._current

    def store_clock(self) -> int:
        return int((BEGINNING + self.now) * 1_000_000)

    def at(self, when: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._order), do))

    def after(self, seconds: float, do: Callable[[], None]) -> None:
        self.at(self.now + seconds, do)

    def enter(self, process: SimulatedProcess, loop: SimulatedLoop) -> None:
        """It is the turn of this loop."""
        if loop is not self._running:
            self._running = loop
            set_running_loop(loop)
        if process is not self._current:
            self._current = process
            if self.on_enter is not None:
                self.on_enter(process)

    def run(self, until: float, is_over: Callable[[], bool]) -> None:
        """Lets time pass until then, or until it is over."""
        events = self._events
        while events and not is_over():
            when, _, do = heapq.heappop(events)
            if when > until:
                heapq.heappush(events, (when, next(self._order), do))
                self.now = until
                return
            self.now = when
            self.turns += 1
            do()

    def end(self) -> None:
        """Nothing runs here any more."""
        self._running = None
        set_running_loop(None)

    def complain(self, process: SimulatedProcess, context: dict[str, Any]) -> None:
        """Notes what went wrong where nobody was told."""
        error = context.get("exception")
        if not process.is_dead:
            self.complaints.append(f"{process.name}: {context['message']}: {error!r}")
