"""The blocking face: the same calls for code without an event loop, over one background thread."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
from collections.abc import Callable, Coroutine, Generator, Sequence
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar
from weakref import WeakSet

from holdfast.engine.client import Client
from holdfast.engine.events import Events
from holdfast.engine.groups import DeadLetters, Queues
from holdfast.engine.lock_grant import Grant
from holdfast.engine.schedules import Schedules
from holdfast.model.errors import BlockingCallOnLoop, NotOpen
from holdfast.model.events import NewEvent
from holdfast.model.job import Job
from holdfast.model.locking import DEFAULT_TTL
from holdfast.model.task import Call
from holdfast.model.timing import Seconds

log = logging.getLogger("holdfast.sync")

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
X = TypeVar("X")
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

    def run(self, name: str, use: Callable[[Client], Coroutine[Any, Any, R]]) -> R:
        """Runs the coroutine there and waits for it; refuses where waiting would stop an event loop."""
        self.check(f"await {name}(...)")
        future = asyncio.run_coroutine_threadsafe(self._use(use), self._started())
        try:
            return future.result()
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


class _Face(Generic[X]):
    """Blocking forms of the methods of an X, which is reached through a client."""

    def __init__(self, background: Background, name: str, reach: Callable[[Client], X]) -> None:
        self._background = background
        self._name = name
        self._reach = reach

    def wait_for(self, name: str, use: Callable[[X], Coroutine[Any, Any, R]]) -> R:
        """Waits for a coroutine; on a running event loop it raises, saying what to await instead."""
        return self._background.run(f"{self._name}.{name}", lambda client: use(self._reach(client)))


def _blocking(
    method: Callable[Concatenate[X, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[_Face[X], P], R]:
    """The same method, waited for."""

    @wraps(method)
    def call(face: _Face[X], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return face.wait_for(method.__name__, lambda target: method(target, *args, **kwargs))

    return call


class SyncQueues(_Face[Queues]):
    """`app.queues`, blocking."""

    pause = _blocking(Queues.pause)
    resume = _blocking(Queues.resume)
    list = _blocking(Queues.list)


class SyncDeadLetters(_Face[DeadLetters]):
    """`app.dlq`, blocking."""

    list = _blocking(DeadLetters.list)
    replay = _blocking(DeadLetters.replay)
    discard = _blocking(DeadLetters.discard)


class SyncSchedules(_Face[Schedules]):
    """`app.schedules`, blocking."""

    put = _blocking(Schedules.put)
    get = _blocking(Schedules.get)
    remove = _blocking(Schedules.remove)
    pause = _blocking(Schedules.pause)
    resume = _blocking(Schedules.resume)
    run = _blocking(Schedules.run)
    next = _blocking(Schedules.next)
    list = _blocking(Schedules.list)


class SyncEvents(_Face[Events]):
    """`app.events`, blocking."""

    list = _blocking(Events.list)
    newest = _blocking(Events.newest)
    groups = _blocking(Events.groups)
    replay = _blocking(Events.replay)
    skip = _blocking(Events.skip)
    forget = _blocking(Events.forget)


class Sync(_Face[Client]):
    """The application for blocking code: the same methods, without `await`.

    It needs no opening: its thread starts with the first call, and ends with `close` or the process.
    """

    def __init__(self, background: Background) -> None:
        super().__init__(background, "app", lambda client: client)
        self.queues = SyncQueues(background, "app.queues", lambda client: Queues(lambda: client))
        self.dlq = SyncDeadLetters(background, "app.dlq", lambda client: DeadLetters(lambda: client))
        self.schedules = SyncSchedules(
            background, "app.schedules", lambda client: Schedules(lambda: client.session)
        )

        self.events = SyncEvents(background, "app.events", lambda client: Events(lambda: client.session))

    enqueue_many = _blocking(Client.enqueue_many)
    get = _blocking(Client.get)
    find = _blocking(Client.find)
    stats = _blocking(Client.stats)
    workers = _blocking(Client.workers)
    leader = _blocking(Client.leader)
    history = _blocking(Client.history)
    explain = _blocking(Client.explain)
    cancel = _blocking(Client.cancel)
    replay = _blocking(Client.replay)
    edit = _blocking(Client.edit)
    delete = _blocking(Client.delete)

    def submit(self, call: Call, name: str) -> Job[Any]:
        """Stores the job of one call; `name` is what blocking code on a loop is told to await."""
        return self._background.run(name, lambda client: client.submit(call))

    def emit(self, events: Sequence[NewEvent]) -> list[str]:
        """Stores events; what `app.emit_sync` does."""
        return self._background.run("app.emit", lambda client: client.emit(events))

    def result(self, job: Job[T], timeout: Seconds | None = None) -> T:
        """What `await job.result(timeout)` gives."""
        value: T = self._background.run("job.result", lambda client: client.results.wait(job.id, timeout))
        return value

    def lock(
        self, name: str, *, ttl: Seconds = DEFAULT_TTL, wait: Seconds | None = None
    ) -> AbstractContextManager[Grant]:
        """What `app.sync_lock` gives."""
        self._background.check("async with app.lock(...)")
        return self._hold(name, ttl, wait)

    @contextmanager
    def _hold(self, name: str, ttl: Seconds, wait: Seconds | None) -> Generator[Grant]:
        grant = self._background.run("app.lock", lambda client: client.locks.acquire(name, ttl, wait))
        try:
            yield grant
        finally:
            if grant.is_ours:
                self._background.run("grant.release", lambda client: grant.release_by(client.locks.end))
        grant.check()

    def close(self) -> None:
        """Ends the background thread. A later call starts a new one."""
        self._background.close()
