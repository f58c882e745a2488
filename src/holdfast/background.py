"""The thread behind the blocking face: an event loop and a client of its own."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from typing import Any, TypeVar
from weakref import WeakSet

from holdfast.engine.client import Client
from holdfast.model.errors import BlockingCallOnLoop, NotOpen

log = logging.getLogger("holdfast.sync")

R = TypeVar("R")
_END_SECONDS = 5.0
_CALL_SECONDS = 1.0


class Background:
    """A thread with an event loop and a client of its own, made when first used; anew in a forked child."""

    def __init__(
        self,
        connect: Callable[[], Coroutine[Any, Any, Client]],
        disconnect: Callable[[Client], Coroutine[Any, Any, None]],
    ) -> None:
        self._connect = connect
        self._disconnect = disconnect
        self.forget()
        _all.add(self)

    def forget(self) -> None:
        """Drops what belongs to another process, or has ended."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._connecting = asyncio.Lock()
        self._calls: set[asyncio.Task[Any]] = set()
        self.client: Client | None = None

    def run(
        self, name: str, use: Callable[[Client], Coroutine[Any, Any, R]], timeout: float | None = None
    ) -> R:
        """Runs the coroutine there and waits for it; refuses where waiting would stop an event loop.

        TimeoutError after so many seconds, which connecting counts to; the coroutine is cancelled then.
        """
        self.check(f"await {name}(...)")
        future = asyncio.run_coroutine_threadsafe(self._use(use), self._started())
        try:
            return future.result(timeout)
        except CancelledError:
            raise NotOpen(f"the application was closed while {name} was under way") from None
        except BaseException:
            future.cancel()
            raise

    def check(self, instead: str) -> None:
        """Raises BlockingCallOnLoop, saying what to write instead, if an event loop runs here."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        raise BlockingCallOnLoop(f"this blocking call would stop the running event loop; use `{instead}`")

    def close(self) -> None:
        """Ends the thread, after what is under way; what waits for something is cut off with NotOpen.

        A later call starts a new one.
        """
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        atexit.unregister(self.close)
        try:
            asyncio.run_coroutine_threadsafe(self._end(), loop).result(_END_SECONDS)
        except TimeoutError:
            log.warning("the blocking face did not end in time", extra={"fields": {"seconds": _END_SECONDS}})
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(_END_SECONDS)
            self.forget()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_serve, args=(self._loop,), name="holdfast-sync", daemon=True
                )
                self._thread.start()
                atexit.register(self.close)
            return self._loop

    async def _use(self, use: Callable[[Client], Coroutine[Any, Any, R]]) -> R:
        call = asyncio.current_task()
        assert call is not None
        self._calls.add(call)
        try:
            async with self._connecting:
                if self.client is None:
                    self.client = await self._connect()
            return await use(self.client)
        finally:
            self._calls.discard(call)

    async def _end(self) -> None:
        if self._calls:
            await asyncio.wait(self._calls, timeout=_CALL_SECONDS)
        for call in self._calls:
            call.cancel()
        if self._calls:
            await asyncio.wait(self._calls)
        if self.client is not None:
            client, self.client = self.client, None
            await self._disconnect(client)


_all: WeakSet[Background] = WeakSet()


def _forget_all() -> None:
    for each in list(_all):
        each.forget()


os.register_at_fork(after_in_child=_forget_all)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()
