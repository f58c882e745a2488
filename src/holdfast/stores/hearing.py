"""A connection that listens, for as long as somebody in this process wants to be told something."""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable

from holdfast.stores.listeners import Listeners


class Hearing(ABC):
    """What is told to one namespace, for the event loop of one session.

    `_serve` listens while somebody wants it; it is begun anew when somebody does after it has ended. What it
    hears it tells to those who listen by way of this session (`_own`); what is told in this process, all are.
    """

    def __init__(self, listeners: Listeners, *, notify: bool) -> None:
        self._listeners = listeners
        self._own = Listeners()
        self._notify = notify
        self.is_deaf = not notify
        """Whether it is known that nothing will be heard."""
        self._loop = asyncio.get_running_loop()
        self._wanted = 0
        self._task: asyncio.Task[None] | None = None

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        ends = (self._listeners.add(wake), self._own.add(wake), self.hear())

        def stop() -> None:
            for end in ends:
                end()

        return stop

    def hear(self) -> Callable[[], None]:
        """Listens for whoever waits, until what it gives back is called."""
        is_over = False
        self._call(self._begin)

        def stop() -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                self._call(self._end)

        return stop

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    @abstractmethod
    async def _serve(self) -> None:
        """Listens until nobody has wanted it for a while."""

    def _call(self, step: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and the connection with it
            self._loop.call_soon_threadsafe(step)

    def _begin(self) -> None:
        self._wanted += 1
        if self._notify and (self._task is None or self._task.done()):
            self._task = self._loop.create_task(self._serve())

    def _end(self) -> None:
        self._wanted -= 1
