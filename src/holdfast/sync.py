"""The blocking face: the same calls for code without an event loop, over one background thread."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from holdfast.background import Background
from holdfast.engine.batches import Batch, Batches, BatchInfo
from holdfast.engine.client import Client
from holdfast.engine.events import Events
from holdfast.engine.groups import DeadLetters, Queues
from holdfast.engine.limits import Limits
from holdfast.engine.lock_grant import Grant
from holdfast.engine.schedules import Schedules
from holdfast.engine.sequences import Sequences
from holdfast.model.events import NewEvent
from holdfast.model.job import Job
from holdfast.model.locking import DEFAULT_TTL
from holdfast.model.task import Call, closing_call
from holdfast.model.timing import Seconds

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
X = TypeVar("X")


class _Face(Generic[X]):
    """Blocking forms of the methods of an X, which is reached through a client."""

    def __init__(self, background: Background, name: str, reach: Callable[[Client], X]) -> None:
        self._background = background
        self._name = name
        self._reach = reach

    def wait_for(
        self, name: str, use: Callable[[X], Coroutine[Any, Any, R]], timeout: float | None = None
    ) -> R:
        """Waits for a coroutine; on a running event loop it raises, saying what to await instead."""
        return self._background.run(f"{self._name}.{name}", lambda client: use(self._reach(client)), timeout)


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


class SyncLimits(_Face[Limits]):
    """`app.limits`, blocking."""

    set = _blocking(Limits.set)
    remove = _blocking(Limits.remove)
    pause = _blocking(Limits.pause)
    resume = _blocking(Limits.resume)
    list = _blocking(Limits.list)


class SyncSequences(_Face[Sequences]):
    """`app.sequences`, blocking."""

    halted = _blocking(Sequences.halted)
    proceed = _blocking(Sequences.proceed)


class SyncBatches(_Face[Batches]):
    """`app.batches`, blocking."""

    get = _blocking(Batches.get)
    opened = _blocking(Batches.opened)
    cancel = _blocking(Batches.cancel)
    close = _blocking(Batches.close)


class SyncBatch:
    """A batch that blocking code fills: `with app.sync.batch(...) as batch: batch.add(...)`."""

    def __init__(self, background: Background, closing: Call) -> None:
        self._background = background
        self._batch = Batch(Batches(lambda: self._client), closing)
        self._reached: Client | None = None

    @property
    def id(self) -> str:
        return self._batch.id

    def add(self, *calls: Call) -> list[Job[Any]]:
        """Stores jobs of the batch; they may begin at once."""
        return self._run("batch.add", lambda: self._batch.add(*calls))

    def info(self) -> BatchInfo:
        return self._run("batch.info", self._batch.info)

    def __enter__(self) -> Self:
        self._background.check("async with app.batch(...)")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run("batch", lambda: self._batch.__aexit__(kind, error, trace))

    @property
    def _client(self) -> Client:
        assert self._reached is not None
        return self._reached

    def _run(self, name: str, use: Callable[[], Coroutine[Any, Any, R]]) -> R:
        def reach(client: Client) -> Coroutine[Any, Any, R]:
            self._reached = client
            return use()

        return self._background.run(name, reach)


class Sync(_Face[Client]):
    """The application for blocking code: the same methods, without `await`.

    It needs no opening: its thread starts with the first call, and ends with `close` or the process.
    """

    def __init__(self, background: Background) -> None:
        super().__init__(background, "app", lambda client: client)
        self.queues = SyncQueues(background, "app.queues", lambda client: Queues(lambda: client))
        self.dlq = SyncDeadLetters(background, "app.dlq", lambda client: DeadLetters(lambda: client))
        self.schedules = SyncSchedules(
            background, "app.schedules", lambda client: Schedules(lambda: client.session, client.notices)
        )

        self.events = SyncEvents(background, "app.events", lambda client: Events(lambda: client.session))
        self.limits = SyncLimits(background, "app.limits", lambda client: Limits(lambda: client.session))
        self.sequences = SyncSequences(
            background, "app.sequences", lambda client: Sequences(lambda: client.session)
        )
        self.batches = SyncBatches(background, "app.batches", lambda client: Batches(lambda: client))

    enqueue_many = _blocking(Client.enqueue_many)
    get = _blocking(Client.get)
    find = _blocking(Client.find)
    stats = _blocking(Client.stats)
    workers = _blocking(Client.workers)
    leader = _blocking(Client.leader)
    held_locks = _blocking(Client.held_locks)
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

    def batch(self, on_done: Call | None = None) -> SyncBatch:
        """What `app.batch` gives, for a `with` block."""
        return SyncBatch(self._background, closing_call(on_done))

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
