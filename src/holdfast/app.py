"""The application: settings, store and tasks put together."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import datetime
from functools import wraps
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Self, TypeVar, Unpack, overload
from uuid import UUID

import msgspec

from holdfast.config import load_settings
from holdfast.declared import Declared
from holdfast.decorator import ForgetfulDecorator, Storable, TaskDecorator, TaskOptions
from holdfast.emitting import Emitting
from holdfast.engine.batches import Batch, Batches
from holdfast.engine.client import Client
from holdfast.engine.context import Context
from holdfast.engine.events import Events
from holdfast.engine.groups import DeadLetters, Queues
from holdfast.engine.limits import Limits
from holdfast.engine.lock_grant import Grant
from holdfast.engine.notices import Notices
from holdfast.engine.partition import Partitions
from holdfast.engine.partition_declaring import make_declaring
from holdfast.engine.partition_worker import make_worker
from holdfast.engine.schedules import Schedules
from holdfast.engine.sequences import Sequences
from holdfast.engine.worker import Worker
from holdfast.model.errors import ConfigurationError
from holdfast.model.job import ResultSource
from holdfast.model.locking import DEFAULT_TTL
from holdfast.model.names import check_name
from holdfast.model.overrides import Overrides
from holdfast.model.plan import Plan
from holdfast.model.recurrence import Recurrence, check_recurrence, every
from holdfast.model.redaction import Contents, Redactor, redact_names, revealed
from holdfast.model.schedule import CATCH_UP, GRACE, Misfire, Overlap, schedule
from holdfast.model.settings import Settings
from holdfast.model.strategy import Strategy
from holdfast.model.task import Call, Registry, closing_call, define
from holdfast.model.timing import SECOND, Seconds
from holdfast.opening import Opening
from holdfast.store import Store
from holdfast.sync import Sync
from holdfast.task import DecoratedTask, Task

if TYPE_CHECKING:
    from holdfast.testing.app import Testing

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")
V = TypeVar("V", bound=Storable)
Hook = TypeVar("Hook", bound=Callable[[], object])
AnyTask = TypeVar("AnyTask", bound=Task[..., Any])


def _delegated(
    method: Callable[Concatenate[Client, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Holdfast, P], Coroutine[Any, Any, T]]:
    """The client's method as one of the application, which must be open."""

    @wraps(method)
    def call(app: Holdfast, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        return method(app.client, *args, **kwargs)

    return call


class Holdfast(Emitting):
    """Background jobs on a store. Making one does no I/O; `async with app:` opens it.

    `store_url` and the settings given here come before environment and file. `state` is whatever handlers
    share; they find it as `ctx.state`.
    """

    def __init__(
        self, store_url: str | None = None, *, state: Any = None, **settings: Unpack[Overrides]
    ) -> None:
        super().__init__()
        self.state = state
        self.registry = Registry()
        self.notices = Notices()
        self.partitions = Partitions(lambda: self.client.session)
        self.queues = Queues(lambda: self.client)
        self.dlq = DeadLetters(lambda: self.client)
        self.limits = Limits(lambda: self.client.session, self.registry)
        self.batches = Batches(lambda: self.client)
        self.sequences = Sequences(lambda: self.client.session)
        self.schedules = Schedules(lambda: self.client.session, self.notices)
        self.events = Events(lambda: self.client.session)
        self._overrides: dict[str, object] = {**settings}
        if store_url is not None:
            self._overrides["store"] = store_url
        self._settings: Settings | None = None
        self._opening = Opening(lambda: self.settings, self.registry, self.notices)
        self.sync = Sync(self._opening.background)
        self._tasks: dict[str, Task[..., Any]] = {}
        self._declared = Declared(lambda: self.settings)
        self._startup: list[Callable[[], object]] = []
        self._shutdown: list[Callable[[], object]] = []

    get = _delegated(Client.get)
    find = _delegated(Client.find)
    stats = _delegated(Client.stats)
    workers = _delegated(Client.workers)
    leader = _delegated(Client.leader)
    held_locks = _delegated(Client.held_locks)
    history = _delegated(Client.history)
    explain = _delegated(Client.explain)
    cancel = _delegated(Client.cancel)
    replay = _delegated(Client.replay)
    edit = _delegated(Client.edit)
    delete = _delegated(Client.delete)
    enqueue_many = _delegated(Client.enqueue_many)

    @overload
    def task(
        self, function: Callable[Concatenate[Context[S], P], Coroutine[Any, Any, T]], /
    ) -> DecoratedTask[P, T, Concatenate[Context[S], P], Coroutine[Any, Any, T]]: ...

    @overload
    def task(
        self, function: Callable[P, Coroutine[Any, Any, T]], /
    ) -> DecoratedTask[P, T, P, Coroutine[Any, Any, T]]: ...

    @overload
    def task(
        self, function: Callable[Concatenate[Context[S], P], V], /
    ) -> DecoratedTask[P, V, Concatenate[Context[S], P], V]: ...

    @overload
    def task(self, function: Callable[P, V], /) -> DecoratedTask[P, V, P, V]: ...

    @overload
    def task(
        self, /, *, keep_result: Literal[False], **options: Unpack[TaskOptions]
    ) -> ForgetfulDecorator: ...

    @overload
    def task(
        self, /, *, keep_result: Literal[True] = True, **options: Unpack[TaskOptions]
    ) -> TaskDecorator: ...

    def task(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Makes a function a task: `@app.task`, or `@app.task(...)` with options.

        Its name is that of the function, unless `name` is given; `aliases` are names that it had before.
        `retry` says what follows a failure, by default what the setting of that name does: three more
        attempts with growing pauses. With `dead_letter` False a job that used them up rests as failed.

        `limit` is for all its jobs, `key_limit` for those of each key. `limit_by`, `fair_by` and
        `sequence_by` name the parameter whose value is the job's `limit_key`, `fair_key` or `sequence_key`;
        `on_failure` and `expires` are those of `using`.
        """
        # Annotations may be text that names classes of the function in which the task is defined.
        frame = inspect.currentframe()
        names = frame.f_back.f_locals if frame and frame.f_back else {}

        def decorate(function: Callable[..., Any]) -> DecoratedTask[..., Any, ..., Any]:
            definition = define(function, names=names, **options)
            self.registry.add(definition)
            task: DecoratedTask[..., Any, ..., Any] = DecoratedTask(self, definition)
            self._tasks[definition.name] = task
            return task

        return decorate if function is None else decorate(function)

    def schedule(
        self,
        recurrence: Recurrence | None = None,
        *,
        name: str | None = None,
        args: Sequence[Any] = (),
        misfire: Misfire = "once",
        overlap: Overlap = "skip",
        jitter: Seconds = 0,
        catch_up: int = CATCH_UP,
        grace: Seconds = GRACE / SECOND,
    ) -> Callable[[AnyTask], AnyTask]:
        """Declares a schedule beside its task: above `@app.task`. It has the task's name unless told another.

        Without a recurrence it is due `interval_seconds`, a setting, after the start of its last run.
        It is stored when a worker starts, as by `app.schedules.put`; one that is stored just so is left as it
        is. One that is no longer declared stays until it is removed.
        """
        # The first one stands in for that of the settings, which are not read before they must be.
        rhythm = every(1) if recurrence is None else check_recurrence(recurrence)

        def declare(task: AnyTask) -> AnyTask:
            _check_task(task)
            rule = schedule(
                task.name if name is None else name,
                rhythm,
                misfire=misfire,
                overlap=overlap,
                jitter=jitter,
                catch_up=catch_up,
                grace=grace,
            )
            self._declared.add(rule, task, tuple(args), is_by_setting=recurrence is None)
            return task

        return declare

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]:
        """All tasks, by name."""
        return MappingProxyType(self._tasks)

    @property
    def declared(self) -> list[Plan]:
        """The schedules that `@app.schedule` declares."""
        return self._declared.plans()

    def batch(self, on_done: Call | None = None) -> Batch:
        """Jobs that belong together: `async with app.batch(report.call()) as batch: await batch.add(...)`.

        When all of them are finished, whether they succeeded or not, the job of `on_done` runs, once; its
        handler finds in `ctx.unmet` how many did not succeed.
        """
        return Batch(self.batches, closing_call(on_done))

    def lock(
        self, name: str, *, ttl: Seconds = DEFAULT_TTL, wait: Seconds | None = None
    ) -> AbstractAsyncContextManager[Grant]:
        """A lock for an `async with` block: waits for it in line, and gives the Grant.

        It is renewed until the block is left; should it be lost, the block is cancelled and ends with
        LockLost. `ttl` is how soon others get it if this process dies. LockTimeout if it is not to be had
        within `wait`. Taking it again inside the block waits for itself.
        """
        return self.client.locks.lock(name, ttl, wait)

    async def try_lock(self, name: str, *, ttl: Seconds = DEFAULT_TTL) -> Grant | None:
        """The lock if it is free and nobody waits for it, else None. Use it as `async with grant:`."""
        return await self.client.locks.try_lock(name, ttl)

    def sync_lock(
        self, name: str, *, ttl: Seconds = DEFAULT_TTL, wait: Seconds | None = None
    ) -> AbstractContextManager[Grant]:
        """A lock for a `with` block of blocking code.

        The block cannot be cancelled: long ones look at `grant.lost` or call `grant.check()`. If the lock was
        lost, leaving the block raises LockLost.
        """
        return self.sync.lock(name, ttl=ttl, wait=wait)

    def on_startup(self, hook: Hook) -> Hook:
        """Calls the function, plain or async, when a worker of this process starts, before its first job."""
        self._startup.append(hook)
        return hook

    def on_shutdown(self, hook: Hook) -> Hook:
        """Calls the function, plain or async, after a worker's last job; the last one registered first."""
        self._shutdown.append(hook)
        return hook

    def worker(
        self,
        queues: Sequence[str] | None = None,
        concurrency: int | None = None,
        strategy: Strategy | None = None,
    ) -> Worker:
        """A worker for these queues, by default all that the tasks name. It opens the application as well.

        `strategy` says which queue is served first; by default each in turn.
        """
        if isinstance(queues, str):
            raise ConfigurationError(f"give a list, for instance [{queues!a}]", setting="queues")
        names = (
            self.registry.queues if queues is None else tuple(check_name(each, "queues") for each in queues)
        )
        settings = self._opening.settings
        if concurrency is not None:
            settings = msgspec.structs.replace(settings, concurrency=concurrency)
        return self._make_worker(names, settings, strategy)

    def _make_worker(self, queues: tuple[str, ...], settings: Settings, strategy: Strategy | None) -> Worker:
        return make_worker(
            self.store,
            self.registry,
            settings,
            queues=queues,
            notices=self.notices,
            strategy=strategy,
            state=self.state,
            subscriptions=tuple(self.subscriptions.values()) if settings.event_consumer else (),
            results=self._opening,
            opening=make_declaring(self.store, self, self.schedules, lambda: self.declared),
            on_startup=self._start_up,
            on_shutdown=self._shut_down,
        )

    async def _start_up(self) -> None:
        for hook in self._startup:
            await _done(hook())

    async def _shut_down(self) -> None:
        for hook in reversed(self._shutdown):
            await _done(hook())

    @property
    def settings(self) -> Settings:
        """The settings, read from all places when first asked for."""
        if self._settings is None:
            self._settings = load_settings(self._overrides)
        return self._settings

    def configured(self, **settings: Unpack[Overrides]) -> Self:
        """Gives settings that come before all others; the application itself. Not while it is open."""
        self._opening.reopen()
        self._overrides.update({name: value for name, value in settings.items() if value is not None})
        self._settings = None
        return self

    def serve_handler(self, *, store: str, namespace: str) -> None:
        """In the process that runs a handler: makes its calls reach the store of its worker, or fail."""
        self._opening.is_of_handler = True
        if (self.settings.store, self.settings.namespace) != (store, namespace):
            self.configured(store=store, namespace=namespace)

    @property
    def redactor(self) -> Redactor:
        """What hides secrets in arguments, results and event data before they are shown."""
        return Redactor(redact_names(self.settings.redact_names or ""))

    async def contents(self, job_id: str | UUID, *, reveal: bool = False) -> Contents | None:
        """What a job carries, as JSON fit to be shown, or with `reveal` all of it; None if it is not stored.

        A text stands for what this process cannot decrypt.
        """
        stored = await self.client.contents(job_id)
        shown = revealed if reveal else self.redactor.shown
        return None if stored is None else Contents(shown(stored[0]), shown(stored[1]))

    @property
    def store(self) -> Store:
        """The store that the settings name."""
        return self._opening.store

    @property
    def client(self) -> Client:
        """The engine's client behind the methods here. NotOpen outside `async with app:`."""
        return self._opening.client

    @property
    def results(self) -> ResultSource[Any]:
        """Where jobs of this application wait for their results."""
        return self._opening

    async def __aenter__(self) -> Self:
        await self._opening.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._opening.leave()

    def __enter__(self) -> Self:
        """For blocking code: what runs in the background for it ends with the block."""
        self._opening.background.check("async with app:")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.sync.close()

    def testing(self, start: datetime | None = None) -> Testing:
        """The application in memory, with a clock that is moved by hand, until the block is left."""
        from holdfast.testing.app import Testing  # noqa: PLC0415  for tests only

        return Testing(self, self._opening, start)


def _check_task(value: object) -> None:
    if not isinstance(value, Task):
        raise ConfigurationError("write @app.schedule(...) above @app.task", setting="schedule")


async def _done(answer: object) -> None:
    if inspect.isawaitable(answer):
        await answer
