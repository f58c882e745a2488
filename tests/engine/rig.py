"""A worker on a memory store that can be made to fail, with what a test needs around it."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Unpack

from holdfast.engine.ids import new_id
from holdfast.engine.janitor import Janitor
from holdfast.engine.notices import Notice, Notices
from holdfast.engine.worker import Worker
from holdfast.model.lifecycle import State
from holdfast.model.options import NO_OPTIONS, Options
from holdfast.model.overrides import Overrides
from holdfast.model.records import AttemptRecord, Edit, Extension, Held, JobRecord
from holdfast.model.settings import Settings
from holdfast.model.task import Call, Registry, TaskDefinition, define
from holdfast.model.timing import SECOND
from holdfast.stores.memory import MemoryStore
from holdfast.testing import ManualClock
from tests.engine.faulty import Faults, FaultyStore

PATIENCE = 10


class Seen:
    """Every notice so far; waits for one that has been told or will be."""

    def __init__(self, notices: Notices, patience: float = PATIENCE) -> None:
        self._patience = patience
        self.all: list[Notice] = []
        self._changed = threading.Condition()
        notices.listen(self._note)

    def of(self, kind: str, **facts: Any) -> list[Notice]:
        with self._changed:
            return [notice for notice in self.all if _fits(notice, kind, facts)]

    async def wait(self, kind: str, count: int = 1, **facts: Any) -> Notice:
        """The notice that is the `count`th of its kind with these facts; `job` means the record's id."""
        return await asyncio.to_thread(self.wait_blocking, kind, count, **facts)

    def wait_blocking(self, kind: str, count: int = 1, **facts: Any) -> Notice:
        def found() -> list[Notice]:
            return [notice for notice in self.all if _fits(notice, kind, facts)][count - 1 : count]

        with self._changed:
            if not self._changed.wait_for(found, self._patience):
                kinds = [notice.kind for notice in self.all]
                raise AssertionError(
                    f"no {kind} {facts} (number {count}) in {self._patience} s; there were {kinds}"
                )
            return found()[0]

    def _note(self, notice: Notice) -> None:
        with self._changed:
            self.all.append(notice)
            self._changed.notify_all()


def _fits(notice: Notice, kind: str, facts: dict[str, Any]) -> bool:
    if notice.kind != kind:
        return False
    told = dict(notice.facts)
    if "record" in told:
        told["job"] = told["record"].id
    return all(told.get(name) == fact for name, fact in facts.items())


class Rig:
    """One namespace of one store, its clock moved by hand unless another is given."""

    def __init__(self, clock: Callable[[], int] | None = None, **settings: Unpack[Overrides]) -> None:
        self.clock = ManualClock()
        self.memory = MemoryStore(clock or self.clock)
        self.faults = Faults()
        self.store = FaultyStore(self.memory, self.faults)
        self.registry = Registry()
        self.notices = Notices()
        self.seen = Seen(self.notices)
        quick: dict[str, Any] = {
            "leader_candidate": False,
            "poll_seconds": 0.05,
            "kill_seconds": 0.1,
            "grace_seconds": 5.0,
        }
        self.settings = Settings(**{**quick, **settings})

    def next_process(self) -> None:
        """What comes next is another process: it has none of the faults of the one before."""
        self.faults = Faults()
        self.store = FaultyStore(self.memory, self.faults)

    def task(self, function: Callable[..., Any], **options: Any) -> TaskDefinition:
        definition = define(function, **options)
        self.registry.add(definition)
        return definition

    def call(self, task: TaskDefinition, *args: Any, **options: Any) -> Call:
        return Call(task, task.encode_arguments(args, {}), Options.of(**options) if options else NO_OPTIONS)

    async def add(self, task: TaskDefinition, *args: Any, **options: Any) -> str:
        job = self.call(task, *args, **options).to_new_job(new_id())
        session = await self.memory.connect("default")
        await session.jobs.add([job])
        return job.id

    def worker(self, **settings: Any) -> Worker:
        given: dict[str, Any] = {"queues": ("default",), "notices": self.notices, **settings}
        return Worker(self.store, self.registry, self.settings, **given)

    async def drain(self) -> int:
        return await self.worker().run(until_idle=True)

    @asynccontextmanager
    async def serving(self, worker: Worker | None = None) -> AsyncGenerator[Worker]:
        async with worker or self.worker() as serving:
            yield serving

    async def job(self, job_id: str) -> JobRecord:
        record = await (await self.memory.connect("default")).jobs.get(job_id)
        assert record is not None
        return record

    async def state(self, job_id: str) -> State:
        return (await self.job(job_id)).state

    async def history(self, job_id: str) -> list[AttemptRecord]:
        return await (await self.memory.connect("default")).jobs.history(job_id)

    async def outcomes(self, job_id: str) -> list[str]:
        return [attempt.outcome.value for attempt in await self.history(job_id)]

    async def cancel(self, job_id: str) -> None:
        """Asks the holder to stop, as the client does for a leased job."""
        jobs = (await self.memory.connect("default")).jobs
        record = await self.job(job_id)
        assert await jobs.edit(job_id, record.version, Edit(ask_cancel=True)) is not None

    async def mark_running(self, job_id: str) -> None:
        """Records the start of a job that is held, as a heartbeat does."""
        record = await self.job(job_id)
        extension = Extension(job=job_id, token=record.token, lease=SECOND, elapsed=1)
        jobs = (await self.memory.connect("default")).jobs
        assert await jobs.extend(record.worker or "", [extension]) == [Held.HELD]

    def hurry(self, seconds: float) -> None:
        """From now on the clock moves by so much at each heartbeat, once that has extended what is held."""

        def advance(notice: Notice) -> None:
            if notice.kind == "heartbeat":
                self.clock.advance(seconds)

        self.notices.listen(advance)

    async def reclaim(self) -> int:
        session = await self.memory.connect("default")
        return await Janitor(session, "janitor", self.settings, self.notices).reclaim()


class Gate:
    """Where a handler waits, on the loop or on a thread, until the test lets it go on."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self._opened = threading.Event()
        self._opened_async = asyncio.Event()

    def open(self) -> None:
        """On the event loop only."""
        self._opened.set()
        self._opened_async.set()

    async def pass_async(self) -> None:
        self.entered.release()
        await self._opened_async.wait()

    def pass_blocking(self) -> None:
        self.entered.release()
        assert self._opened.wait(PATIENCE)

    async def wait_entered(self, count: int = 1) -> None:
        for _ in range(count):
            assert await asyncio.to_thread(self.entered.acquire, timeout=PATIENCE)
