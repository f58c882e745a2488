"""A thread that makes blocking calls for an event loop, one after the other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Work = tuple["Future[Any]", Callable[[], Any]]


class CallThread:
    """Starts its thread at the first call. Daemon: a call that hangs must not keep a process alive."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: SimpleQueue[Work | None] | None = None

    async def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """What the function gives. When this is cancelled, a call that has begun goes on."""
        if self._queue is None:
            self._queue = SimpleQueue()
            threading.Thread(target=_serve, args=(self._queue,), name=self._name, daemon=True).start()
        future: Future[T] = Future()
        self._queue.put((future, lambda: function(*args, **kwargs)))
        return await asyncio.wrap_future(future)

    def stop(self) -> None:
        """Ends the thread after the calls that it has; a later call starts another."""
        if self._queue is not None:
            self._queue.put(None)
            self._queue = None


def _serve(queue: SimpleQueue[Work | None]) -> None:
    while (work := queue.get()) is not None:
        future, call = work
        if not future.set_running_or_notify_cancel():
            continue
        try:
            result = call()
        except BaseException as error:  # noqa: BLE001 -- whatever it is belongs to the caller
            future.set_exception(error)
            del error
        else:
            future.set_result(result)
            del result
        del work, future, call


async def finished(work: asyncio.Future[Any]) -> None:
    """Waits until it ends, however it ends, and however often the waiting is cancelled."""
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:
            continue
    if not work.cancelled():
        work.exception()
