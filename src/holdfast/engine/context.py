"""What a handler is given when it asks for it: its job, its token, and ways to report and to finish."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Generator, MutableMapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Generic, Protocol
from uuid import UUID

from msgspec.structs import replace

from holdfast.model.errors import ConfigurationError, LeaseLost
from holdfast.model.events import Event, check_event
from holdfast.model.job import Job
from holdfast.model.lifecycle import State
from holdfast.model.names import check_id
from holdfast.model.outcome import Stop
from holdfast.model.plan import Firing, firing_of
from holdfast.model.records import JobRecord, Move, Verdict
from holdfast.model.task import Call, check_call
from holdfast.store import Transactions

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    S = TypeVar("S", default=object)
else:
    from typing import TypeVar

    S = TypeVar("S")

log = logging.getLogger("holdfast.task")


class Stopped(asyncio.CancelledError):
    """Raised by `ctx.check()` in an attempt that was told to stop. Let it pass."""


class Link(Protocol):
    """The context's way to the worker that runs the attempt."""

    record: JobRecord

    @property
    def stop(self) -> Stop | None: ...

    def progress(self, fraction: float, note: str | None) -> None: ...

    def enqueue(self, call: Call) -> str: ...

    def emit(self, event: Event[Any]) -> str: ...

    @property
    def transactions(self) -> Transactions | None: ...

    async def complete_in(self, transactions: Transactions, connection: Any, value: object) -> Verdict:
        """Records the success of this attempt as part of an open transaction."""
        ...

    def complete_in_sync(self, transactions: Transactions, connection: Any, value: object) -> Verdict: ...

    def committed(self) -> None: ...


class JobLink(Link, Protocol):
    """The way of an attempt at a job, whose success is a move."""

    namespace: str
    worker: str

    def success(self, value: object) -> Move: ...

    async def complete_in(self, transactions: Transactions, connection: Any, value: object) -> Verdict:
        return await transactions.move_in(connection, self.namespace, self.worker, self.success(value))

    def complete_in_sync(self, transactions: Transactions, connection: Any, value: object) -> Verdict:
        return transactions.move_in_sync(connection, self.namespace, self.worker, self.success(value))


class Transaction:
    """An open transaction of the job's own store; the job's completion is part of it."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.value: object = None

    def complete(self, value: object) -> None:
        """Sets the job's result, recorded when the block is left."""
        self.value = value


class JobLog(logging.LoggerAdapter[logging.Logger]):
    """Puts job, run, token and worker on every line."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        fields = {**kwargs.pop("fields", {}), **(self.extra or {})}
        kwargs["extra"] = {**(kwargs.get("extra") or {}), "fields": fields}
        return msg, kwargs


class Context(Generic[S]):
    """One attempt, seen from inside the handler. `S` is the type of the application's shared state."""

    __holdfast_context__ = True

    def __init__(self, link: Link, state: S) -> None:
        self._link = link
        self._record = link.record
        self.state = state

    @property
    def job(self) -> Job[Any]:
        """The job as this attempt has it: running, also before the store has heard of the start."""
        job = Job[Any].from_record(self._record)
        return replace(job, state=State.RUNNING) if job.state is State.CLAIMED else job

    @property
    def run(self) -> int:
        """Which attempt this is, from 1."""
        return self._record.run

    @property
    def token(self) -> int:
        """Grows with every attempt; give it to whatever must refuse an older one."""
        return self._record.token

    @property
    def key(self) -> str:
        """The same for every attempt of this job; give it to services that take an idempotency key."""
        return self._record.key or self._record.id

    @property
    def firing(self) -> Firing | None:
        """The schedule and the due time that this job was fired for; None for a job that was enqueued."""
        return firing_of(self._record)

    @property
    def unmet(self) -> int:
        """How many of the jobs that this one comes after, such as those of its batch, did not succeed."""
        return 0 if self._record.flow is None else self._record.flow.unmet

    @property
    def cancelled(self) -> bool:
        """True once the attempt should stop, for whatever reason."""
        return self._link.stop is not None

    def check(self) -> None:
        """Raises Stopped once the attempt should stop. Call it now and then in long blocking handlers."""
        stop = self._link.stop
        if stop is not None:
            raise Stopped(stop.value)

    def progress(self, fraction: float, note: str | None = None) -> None:
        """Tells how far the attempt is, between 0 and 1.

        Costs nothing; it travels with the next heartbeat.
        """
        if not 0 <= fraction <= 1:
            raise ValueError(f"progress is a number between 0 and 1, not {fraction!r}")
        self._link.progress(fraction, note)

    def enqueue(self, call: Call, *, batch: str | UUID | None = None) -> str:
        """Enqueues a job together with this one's success, or not at all. Gives its id.

        With the id of the `batch` that this job belongs to, the new one belongs to it too, and the batch ends
        no earlier than that.
        """
        checked = check_call(call)
        return self._link.enqueue(checked if batch is None else checked.in_batch(check_id(batch, "batch")))

    def emit(self, event: Event[Any]) -> str:
        """Emits an event together with this job's success, or not at all. Gives its id."""
        return self._link.emit(check_event(event))

    @property
    def log(self) -> JobLog:
        record = self._record
        return JobLog(
            log,
            {
                "job": record.id,
                "task": record.task,
                "run": record.run,
                "token": record.token,
                "worker": record.worker,
            },
        )

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Transaction]:
        """A transaction whose commit also records this job's success.

        Raises LeaseLost, rolled back, if superseded.
        """
        transactions = self._transactions()
        async with transactions.begin() as connection:
            transaction = Transaction(connection)
            yield transaction
            await self._complete_in(transactions, connection, transaction.value)
        self._link.committed()

    @contextmanager
    def sync_transaction(self) -> Generator[Transaction]:
        """The same for blocking handlers."""
        transactions = self._transactions()
        with transactions.begin_sync() as connection:
            transaction = Transaction(connection)
            yield transaction
            self._complete_in_sync(transactions, connection, transaction.value)
        self._link.committed()

    async def complete_in(self, connection: Any, value: object = None) -> None:
        """Records this job's success in the caller's own open transaction, which the caller commits."""
        await self._complete_in(self._transactions(), connection, value)
        self._link.committed()

    def complete_in_sync(self, connection: Any, value: object = None) -> None:
        """The same on a blocking connection."""
        self._complete_in_sync(self._transactions(), connection, value)
        self._link.committed()

    async def _complete_in(self, transactions: Transactions, connection: Any, value: object) -> None:
        self._insist(await self._link.complete_in(transactions, connection, value))

    def _complete_in_sync(self, transactions: Transactions, connection: Any, value: object) -> None:
        self._insist(self._link.complete_in_sync(transactions, connection, value))

    def _insist(self, verdict: Verdict) -> None:
        if verdict is not Verdict.ACCEPTED:
            raise LeaseLost(
                f"{self._record.task} {self._record.id}, run {self.run}: the lease is no longer held, "
                "so this must not commit"
            )

    def _transactions(self) -> Transactions:
        transactions = self._link.transactions
        if transactions is None:
            raise ConfigurationError("this store has no transactions; use a SQL store", setting="store")
        return transactions
