"""What stands in for the surroundings of the engine in a simulated process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from holdfast.engine.apart import Ended, Helping, Serve
from holdfast.testing.simulation.loop import SimulatedLoop
from holdfast.testing.simulation.universe import Universe

T = TypeVar("T")

LONGEST_WAIT = 0.2
"""How many seconds a thread may take to begin what it is given."""


class SimulatedSurroundings:
    """The process whose turn it is, as the engine sees it."""

    longest_timer = float("inf")  # Timers go by the same clock as `now`.

    def __init__(self, universe: Universe) -> None:
        self._universe = universe

    def now(self) -> float:
        universe = self._universe
        process = universe.current
        return universe.now * process.rate + process.offset

    def draw_ids(self, count: int) -> list[str]:
        return self._universe.current.draw_ids(count)

    def token_hex(self, count: int) -> str:
        return self._universe.chance.randbytes(count).hex()

    def host_name(self) -> str:
        return self._universe.current.name

    def process_id(self) -> int:
        return self._universe.current.number

    def start_thread(self, run: Callable[[], None], *, name: str) -> Callable[[], None]:
        """Runs the function as a whole, after a while."""
        loop = self._universe.current.make_loop()

        def whole() -> None:
            try:
                run()
            finally:
                loop.close()

        loop.call_later(self._universe.chance.random() * LONGEST_WAIT, whole)
        return _nothing

    def start_loop(self, serve: Serve, ended: Ended, *, name: str) -> Callable[[], None]:
        process = self._universe.current

        async def main() -> None:
            failure: BaseException | None = None
            try:
                await loop.create_task(serve())
            except BaseException as error:  # noqa: BLE001  handed to whoever started it
                failure = error
            await _end_others(loop)
            ended(failure)
            loop.call_soon(loop.close)

        loop = process.start(main)
        return _nothing

    def make_hands(self, serve: Callable[[T], bool], *, name: str) -> Helping[T]:
        return SimulatedHands(self, serve, name)


class SimulatedHands(Helping[T]):
    """A new thread for each piece of work."""

    def __init__(self, surroundings: SimulatedSurroundings, serve: Callable[[T], Any], name: str) -> None:
        self._surroundings = surroundings
        self._serve = serve
        self._name = name

    def put(self, work: T) -> None:
        self._surroundings.start_thread(lambda: self._serve(work), name=self._name)

    def is_free(self) -> None:
        """None is kept for the next."""

    def close(self) -> None:
        """None is idle."""


async def _end_others(loop: SimulatedLoop) -> None:
    """Ends what is left on the loop, as `asyncio.run` does."""
    others = [task for task in asyncio.all_tasks(loop) if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others)


def _nothing() -> None:
    """There is no thread to wait for."""
