"""Simulated time, and whose turn it is. Nothing else decides what happens next but the seed."""

from __future__ import annotations

from asyncio import _set_running_loop as set_running_loop  # pyright: ignore[reportPrivateUsage]  for loops
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.testing.simulation.loop import SimulatedLoop
    from holdfast.testing.simulation.process import SimulatedProcess

BEGINNING = 1_700_000_000
"""When every simulation begins, in seconds since 1970."""


class Universe:
    """All simulated processes, and what is to happen to them. `now` is in seconds since the beginning.

    `running` is the loop whose turn it is, or was last, and `current` its process.
    """

    current: SimulatedProcess

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.now = 0.0
        self.processes: list[SimulatedProcess] = []
        self.complaints: list[str] = []
        self.running: SimulatedLoop | None = None
        self.on_enter: Callable[[SimulatedProcess], None] | None = None
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    def store_clock(self) -> int:
        return int((BEGINNING + self.now) * 1_000_000)

    def at(self, when: float, do: Callable[[], None]) -> None:
        heappush(self._events, (when, next(self._order), do))

    def after(self, seconds: float, do: Callable[[], None]) -> None:
        heappush(self._events, (self.now + seconds, next(self._order), do))

    def is_due_by(self, when: float) -> bool:
        """Whether anything is to happen until then."""
        return bool(self._events) and self._events[0][0] <= when

    def enter(self, process: SimulatedProcess, loop: SimulatedLoop) -> None:
        """It is the turn of this loop."""
        if loop is self.running:
            return
        if self.running is None or process is not self.current:
            self.current = process
            if self.on_enter is not None:
                self.on_enter(process)
        self.running = loop
        set_running_loop(loop)

    def run(self, until: float) -> None:
        """Lets time pass until then."""
        events = self._events
        while events and events[0][0] <= until:
            self.now, _, do = heappop(events)
            do()
        self.now = until

    def end(self) -> None:
        """Nothing runs here any more."""
        self.running = None
        set_running_loop(None)

    def complain(self, process: SimulatedProcess, context: dict[str, Any]) -> None:
        """Notes what went wrong where nobody was told."""
        error = context.get("exception")
        if not process.is_dead:
            self.complaints.append(f"{process.name}: {context['message']}: {error!r}")
