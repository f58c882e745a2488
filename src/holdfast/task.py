"""Tasks as users have them: still plain functions, and a way to enqueue calls of them, typed alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, cast
from uuid import UUID

from holdfast.engine.client import Client, refuse
from holdfast.engine.ids import new_id
from holdfast.engine.notices import Notices
from holdfast.engine.tracing import following
from holdfast.model.errors import ConfigurationError
from holdfast.model.job import Job, ResultSource
from holdfast.model.options import NO_OPTIONS, Named, OnFailure, Options
from holdfast.model.records import Added, NewJob
from holdfast.model.retry import RetryStrategy
from holdfast.model.settings import Settings
from holdfast.model.task import Call, TaskDefinition
from holdfast.model.timing import SECOND, Seconds
from holdfast.store import Store, Transactions
from holdfast.sync import Sync

P = ParamSpec("P")
C = ParamSpec("C")
T = TypeVar("T")
R = TypeVar("R")
_make_job = Job[Any].from_record


class Home(Protocol):
    """What tasks and events need of the application that they belong to."""

    state: Any
    notices: Notices

    @property
    def settings(self) -> Settings: ...

    @property
    def store(self) -> Store: ...

    @property
    def client(self) -> Client: ...

    @property
    def results(self) -> ResultSource[Any]: ...

    @property
    def sync(self) -> Sync: ...


def transactions_of(store: Store) -> Transactions:
    """How to join the caller's transaction; ConfigurationError if the store has none."""
    if store.transactions is None:
        raise ConfigurationError(
            "this store has no transactions to join; use a SQL store, such as sqlite:///jobs.db",
            setting="store",
        )
    return store.transactions


class Task(Generic[P, T]):
    """A task with the options of its calls. `P` is what `enqueue` takes, `T` what the job's result is."""

    def __init__(self, app: Home, definition: TaskDefinition, options: Options = NO_OPTIONS) -> None:
        self.app = app
        self.definition = definition
        self._options = options

    @property
    def name(self) -> str:
        return self.definition.name

    def using(
        self,
        *,
        delay: Seconds | None = None,
        at: datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
        key: str | None = None,
        key_ttl: Seconds | None = None,
        id: str | UUID | None = None,
        tags: Sequence[str] | None = None,
        retry: RetryStrategy | None = None,
        timeout: Seconds | None = None,
        lease: Seconds | None = None,
        limit_key: str | None = None,
        fair_key: str | None = None,
        sequence_key: str | None = None,
        on_failure: OnFailure | None = None,
        after: Sequence[Named | str | UUID] | None = None,
        after_any: bool | None = None,
        expires: Seconds | None = None,
    ) -> Task[P, T]:
        """The same task with other options for its calls; what is not given stays as it was.

        The job is due after `delay` or at `at`. Lower `priority` runs first. The same `key` within `key_ttl`
        gives the same job. `retry`, `timeout` and `lease` replace the task's own.

        Limits count the jobs of one `limit_key`. Those of one `fair_key` share their queue with those of
        others. Those of one `sequence_key` run one at a time, in order; `on_failure` says whether the next
        begins when this one has failed for good. It waits for the jobs in `after` to succeed, or just to end
        with `after_any`. It is cancelled if it was not started before it `expires`.
        """
        said = Options.of(
            delay=delay,
            at=at,
            priority=priority,
            queue=queue,
            key=key,
            key_ttl=key_ttl,
            id=id,
            tags=tags,
            retry=retry,
            timeout=timeout,
            lease=lease,
            limit_key=limit_key,
            fair_key=fair_key,
            sequence_key=sequence_key,
            on_failure=on_failure,
            after=after,
            after_any=after_any,
            expires=expires,
        )
        return Task(self.app, self.definition, said.over(self._options))

    def call(self, /, *args: P.args, **kwargs: P.kwargs) -> Call:
        """The call as a value, its arguments checked and encoded; for `enqueue_many` and `ctx.enqueue`."""
        settings = self.app.settings
        payload = self.definition.encode_arguments(args, kwargs, settings.payload_bytes)
        options = self.definition.options_of(self._options, args, kwargs)
        if options is NO_OPTIONS:
            return Call(self.definition, payload)
        return Call(self.definition, payload, options, round(settings.key_ttl_seconds * SECOND))

    async def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Job[T]:
        """Stores a job that makes this call; when it returns, the job is stored durably."""
        return await self.app.client.submit(self.call(*args, **kwargs))

    def enqueue_sync(self, /, *args: P.args, **kwargs: P.kwargs) -> Job[T]:
        """The same for blocking code."""
        return self.app.sync.submit(
            self.call(*args, **kwargs), f"{self.definition.function.__name__}.enqueue"
        )

    async def enqueue_in(self, connection: Any, /, *args: P.args, **kwargs: P.kwargs) -> Job[T]:
        """Stores the job in the caller's open transaction, which the caller commits or rolls back."""
        job = self.call(*args, **kwargs).to_new_job(new_id())
        namespace, transactions = self.app.settings.namespace, transactions_of(self.app.store)
        with following(self.app.notices, [job]) as trip:
            trip.answers = answers = await transactions.add_in(connection, namespace, trip.jobs)
        return self._joined(job, answers)

    def enqueue_in_sync(self, connection: Any, /, *args: P.args, **kwargs: P.kwargs) -> Job[T]:
        """The same on a blocking connection."""
        job = self.call(*args, **kwargs).to_new_job(new_id())
        namespace, transactions = self.app.settings.namespace, transactions_of(self.app.store)
        with following(self.app.notices, [job]) as trip:
            trip.answers = answers = transactions.add_in_sync(connection, namespace, trip.jobs)
        return self._joined(job, answers)

    def _joined(self, job: NewJob, answers: Sequence[Added]) -> Job[T]:
        (added,) = answers
        if added.conflict is not None:
            refuse(job, added)
        return _make_job(added.record, self.app.results)

    def __repr__(self) -> str:
        return f"<Task {self.name!r} {self.definition.where}>"


class DecoratedTask(Task[P, T], Generic[P, T, C, R]):
    """What `@app.task` gives: a task that is still the plain function. `C` and `R` are the function's own."""

    def __init__(self, app: Home, definition: TaskDefinition) -> None:
        super().__init__(app, definition)
        function = cast(Callable[C, R], definition.function)
        self._function = function
        self.__wrapped__ = function
        self.__module__ = definition.function.__module__
        self.__name__ = definition.function.__name__
        self.__qualname__ = definition.function.__qualname__
        self.__doc__ = definition.function.__doc__

    def __call__(self, /, *args: C.args, **kwargs: C.kwargs) -> R:
        """Calls the function, here and now; nothing is stored."""
        return self._function(*args, **kwargs)
