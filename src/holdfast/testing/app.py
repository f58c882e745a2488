"""An application under test: in memory, with time moved by hand, its real worker run on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from holdfast.engine.leader import LEADER
from holdfast.engine.notices import Notices
from holdfast.engine.scheduler import Scheduler
from holdfast.engine.schedules import Schedules
from holdfast.engine.worker import Worker
from holdfast.model.job import Job
from holdfast.model.plan import Plan
from holdfast.model.records import JobRecord, LockWish, Query
from holdfast.model.scheduling import Term
from holdfast.model.settings import Settings
from holdfast.model.task import Registry, TaskDefinition
from holdfast.model.timing import SECOND, Seconds, instant, moment
from holdfast.opening import Opening
from holdfast.store import Session, Store
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import ManualClock

T = TypeVar("T")
_PAGE = 500
_make_job = Job[Any].from_record


class Application(Protocol):
    """What is needed of a Holdfast."""

    @property
    def registry(self) -> Registry: ...

    @property
    def settings(self) -> Settings: ...

    @property
    def declared(self) -> list[Plan]: ...

    notices: Notices

    def worker(self, queues: Sequence[str] | None = None, concurrency: int | None = None) -> Worker: ...


class Enqueued(Protocol):
    """What is needed of a task."""

    @property
    def definition(self) -> TaskDefinition: ...


class Testing:
    """The application, in memory until the block is left; what it had open before must be closed.

    `async with` opens it for async code. `with` is enough for blocking code. Schedules that the application
    declares are stored from the beginning on.
    """

    __test__ = False

    def __init__(self, app: Application, opening: Opening, start: datetime | None = None) -> None:
        self.clock = ManualClock(None if start is None else instant(start, "start"))
        self._app = app
        self.opening = opening
        self._store: Store = MemoryStore(self.clock)

    def __enter__(self) -> Self:
        plans = self._app.declared
        self._store = self.opening.sealed(MemoryStore(self.clock))
        self.opening.use(self._store)
        for plan in plans:
            self._read(Schedules(self._session).declare(plan))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.opening.background.close()
        self.opening.use(None)

    async def __aenter__(self) -> Self:
        self.__enter__()
        await self.opening.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.opening.leave()
        await asyncio.to_thread(self.opening.background.close)
        self.opening.use(None)

    @property
    def now(self) -> datetime:
        return moment(self.clock())

    def advance(self, by: Seconds) -> None:
        """Lets time pass. What becomes due is fired and run by the next `drain`."""
        self.clock.advance(by)

    def fire_due(self) -> None:
        """Fires the schedules that are due now: their jobs are stored, and not run yet."""
        self._read(self._lead())

    async def drain(self) -> None:
        """Fires and runs what is due now, and what that leads to, until nothing is; with the real worker."""
        while True:
            self.fire_due()
            used = {each.name for each in self._read(self._session().fleet.queues())}
            await self._app.worker(sorted({*used, *self._app.registry.queues})).run(until_idle=True)
            if not self._read(self._session().schedules.due(1)).records:
                return

    def drain_sync(self) -> None:
        """The same for blocking tests."""
        self.opening.background.run("testing.drain", lambda _: self.drain())

    def jobs(self, task: Enqueued | None = None, *, queue: str | None = None) -> list[Job[Any]]:
        """All jobs, whatever became of them, oldest first."""
        return [_make_job(record) for record in self._records(task, queue)]

    def assert_enqueued(
        self,
        task: Enqueued,
        *,
        arguments: Mapping[str, object] | None = None,
        queue: str | None = None,
        count: int | None = None,
    ) -> None:
        """Fails unless jobs of the task were enqueued: at least one, or exactly `count`.

        Only those count that have these `arguments`, by name, and stand in that `queue`, where given.
        """
        signature = task.definition.signature
        records = self._records(task, None)
        calls = [(record.queue, signature.named(record.payload)) for record in records]
        wanted = dict(arguments or {})
        found = sum(
            (queue is None or stands_in == queue)
            and all(name in given and given[name] == value for name, value in wanted.items())
            for stands_in, given in calls
        )
        if found == count or (count is None and found):
            return
        asked = f"{'at least 1' if count is None else count} of {task.definition.name!r}"
        asked += f" with {wanted}" if wanted else ""
        asked += f" in queue {queue!r}" if queue else ""
        stored = "".join(f"\n  {given} in queue {stands_in!r}" for stands_in, given in calls) or " none"
        raise AssertionError(f"{found} enqueued, expected {asked}; of this task there are:{stored}")

    async def _lead(self) -> None:
        """Does what the leader does, as its own lock is held, until no schedule is due."""
        session = self._session()
        wish = LockWish(name=LEADER, owner="testing", ttl=SECOND)
        token = (await session.locks.acquire(wish)).token
        if token is None:
            raise RuntimeError(f"the lock {LEADER} is held by another, so schedules cannot be fired")
        scheduler = Scheduler(session.schedules, self._app.settings.poll_seconds, self._app.notices)
        try:
            while (await session.schedules.due(1)).records:
                await scheduler.turn(Term(lock=LEADER, owner=wish.owner, token=token))
        finally:
            await session.locks.release(LEADER, wish.owner, token)

    def _records(self, task: Enqueued | None, queue: str | None) -> list[JobRecord]:
        name = None if task is None else task.definition.name
        jobs = self._session().jobs
        records: list[JobRecord] = []
        cursor: str | None = None
        while True:
            query = Query(task=name, queue=queue, cursor=cursor, limit=_PAGE)
            page = self._read(jobs.find(query))
            records += page
            if len(page) < _PAGE:
                return records[::-1]
            cursor = page[-1].id

    def _session(self) -> Session:
        return self._read(self._store.connect(self._app.settings.namespace))

    def _read(self, operation: Coroutine[Any, Any, T]) -> T:
        """Operations of the memory store never wait, so their answer can be had without an event loop."""
        try:
            operation.send(None)
        except StopIteration as stop:
            answer: T = stop.value
            return answer
        operation.close()
        raise RuntimeError("the memory store had to wait")
