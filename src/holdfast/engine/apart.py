"""Threads of our own: daemons, since a thread cannot be killed and must not keep a stopped process alive."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Work_contra = TypeVar("Work_contra", contravariant=True)

Serve = Callable[[], Coroutine[Any, Any, None]]
Ended = Callable[[BaseException | None], None]


class StartThread(Protocol):
    """Starts a thread."""

    def __call__(self, run: Callable[[], None], *, name: str) -> Callable[[], None]:
        """Runs the function on a thread of its own; gives back how to wait for its end."""
        ...


class StartLoop(Protocol):
    """Starts an event loop."""

    def __call__(self, serve: Serve, ended: Ended, *, name: str) -> Callable[[], None]:
        """Runs the coroutine on a thread with an event loop of its own; gives back how to wait for its end.

        `ended` is called there, after the loop has ended, with what the coroutine raised.
        """
        ...


class Helping(Protocol[Work_contra]):
    """Threads that wait for work, of one event loop."""

    def put(self, work: Work_contra) -> None: ...

    def is_free(self) -> None:
        """Says that one of them has done its work."""
        ...

    def close(self) -> None:
        """Ends the idle ones; a busy one ends after its work."""
        ...


class MakeHands(Protocol):
    """Makes threads that wait for work."""

    def __call__(self, serve: Callable[[T], bool], *, name: str) -> Helping[T]:
        """Threads that call `serve` with what is put; one for which it gives False ends."""
        ...


def start_thread_apart(run: Callable[[], None], *, name: str) -> Callable[[], None]:
    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread.join


def start_loop_apart(serve: Serve, ended: Ended, *, name: str) -> Callable[[], None]:
    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:  # noqa: BLE001  handed to whoever started it
            ended(error)
        else:
            ended(None)

    return start_thread_apart(run, name=name)


class Hands(Helping[T]):
    """As many threads as there is work at once; raises RuntimeError if the system gives none for it."""

    def __init__(self, serve: Callable[[T], bool], *, name: str) -> None:
        self._serve = serve
        self._name = name
        self._queue: SimpleQueue[tuple[T] | None] = SimpleQueue()
        self._size: int = 0
        self._busy: int = 0

    def put(self, work: T) -> None:
        if self._busy == self._size:
            start_thread_apart(self._run, name=f"{self._name}-{self._size + 1}")
            self._size += 1
        self._busy += 1
        self._queue.put((work,))

    def is_free(self) -> None:
        self._busy -= 1

    def close(self) -> None:
        for _ in range(self._size):
            self._queue.put(None)

    def _run(self) -> None:
        while (found := self._queue.get()) is not None:
            goes_on = self._serve(found[0])
            del found
            if not goes_on:
                return
