"""What one conformance test works with: the store under test, its clock, short words for frequent calls."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import wraps
from itertools import count
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar
from uuid import uuid4

import pytest

from holdfast.model.lifecycle import DEAD_LETTERED, SUCCEEDED, Ending, Path, State
from holdfast.model.records import Edit, JobRecord, Move, NewJob, Tick, Ticked, Verdict, Want, WorkerRecord
from holdfast.model.timing import SECOND
from holdfast.store import FleetStore, FlowStore, JobStore, Session, Store

P = ParamSpec("P")
S = TypeVar("S")

LEASE = 2 * SECOND
"""Short, so that a store without a manual clock can wait for its end."""

LONG = 600 * SECOND
"""So long that it never ends within a test."""

TASK = "send"
QUEUE = "mail"

_numbers = count(1)


class Subject(NamedTuple):
    """A store under test, and what makes time pass for it.

    A store without a clock that can be moved gives a function that really waits, and says `real_time`; tests
    that would wait for long are then skipped.
    """

    store: Store
    advance: Callable[[float], None]
    real_time: bool = False


class Case:
    """One test's access to the store, in a namespace of its own."""

    session: Session
    jobs: JobStore
    fleet: FleetStore

    def __init__(self, subject: Subject) -> None:
        self.store = subject.store
        self._subject = subject
        self.namespace = f"conformance-{uuid4().hex[:12]}"
        self._sessions: list[Session] = []
        self._registered: set[str] = set()
        self._seqs = count(1)

    async def run(self, test: Callable[["Case"], Awaitable[None]]) -> None:
        try:
            self.session = await self.open()
            self.jobs = self.session.jobs
            self.fleet = self.session.fleet
            await test(self)
        finally:
            for session in self._sessions:
                await session.close()
            await self.store.close()

    @property
    def flow(self) -> FlowStore:
        return self.session.flow

    async def open(self, namespace: str | None = None) -> Session:
        """Another session, of the test's own namespace unless told otherwise; closed after the test."""
        session = await self.store.connect(namespace or self.namespace)
        self._sessions.append(session)
        return session

    def advance(self, seconds: float) -> None:
        if self._subject.real_time and seconds > 10:
            pytest.skip("needs a clock that can be moved")
        self._subject.advance(seconds)

    async def advance_to(self, instant: int) -> None:
        """Moves the store's clock to the very microsecond."""
        if self._subject.real_time:
            pytest.skip("needs a clock that can be moved")
        now = (await self.add(queue="the time")).created
        self._subject.advance((instant - now) / SECOND)

    async def add(self, **fields: Any) -> JobRecord:
        """Stores one new job."""
        [added] = await self.jobs.add([new_job(**fields)])
        assert added.created
        return added.record

    async def register(self, worker: str, lease: int = LONG) -> None:
        await self.fleet.register(worker_record(worker), lease)
        self._registered.add(worker)

    async def tick(
        self,
        worker: str,
        moves: Sequence[Move] = (),
        want: Want | None = None,
        seq: int | None = None,
        repeat: bool = False,
    ) -> Ticked:
        seq = next(self._seqs) if seq is None else seq
        return await self.jobs.tick(Tick(worker=worker, seq=seq, moves=list(moves), want=want, repeat=repeat))

    async def tick_on(self, jobs: JobStore, worker: str, moves: Sequence[Move], want: Want) -> Ticked:
        """A tick of another session."""
        return await jobs.tick(Tick(worker=worker, seq=next(self._seqs), moves=list(moves), want=want))

    async def claim(self, worker: str = "ann", limit: int = 1, lease: int = LONG) -> list[JobRecord]:
        """Claims from the usual queue for a worker, which is registered first if need be."""
        if worker not in self._registered:
            await self.register(worker)
        return (await self.tick(worker, want=wanted(limit=limit, lease=lease))).claimed

    async def claim_one(self, worker: str = "ann", lease: int = LONG) -> JobRecord:
        [job] = await self.claim(worker, lease=lease)
        return job

    async def add_and_claim(self, worker: str = "ann", lease: int = LONG, **fields: Any) -> JobRecord:
        """A job that the worker holds, provided that no other is ready."""
        added = await self.add(**fields)
        job = await self.claim_one(worker, lease)
        assert job.id == added.id
        return job

    async def finish(self, job: JobRecord, worker: str = "ann", **want: Any) -> list[JobRecord]:
        """Ends a job with success and claims in the same tick, if anything is wanted; what was claimed."""
        ticked = await self.tick(worker, [ended(job)], wanted(**want) if want else None)
        assert ticked.verdicts == [Verdict.ACCEPTED]
        return ticked.claimed

    async def dead_letter(self, job: JobRecord, worker: str = "ann") -> JobRecord:
        """Lets an attempt fail for good; the job as it then stands."""
        move = ended(job, DEAD_LETTERED, Ending.FAILED, failures=1, reason="broken")
        assert await self.move(worker, move) is Verdict.ACCEPTED
        return await self.reload(job)

    async def cancel(self, job: JobRecord) -> None:
        """Cancels a job that waits."""
        stored = await self.reload(job)
        path = (stored.state, State.CANCELLED)
        assert await self.jobs.edit(job.id, stored.version, Edit(path=path)) is not None

    async def move(self, worker: str, move: Move) -> Verdict:
        return (await self.tick(worker, [move])).verdicts[0]

    async def reload(self, job: JobRecord | str) -> JobRecord:
        stored = await self.jobs.get(job if isinstance(job, str) else job.id)
        assert stored is not None
        return stored


class Promises:
    """The base of all topics: turns the factory of the store's author into a case for each test."""

    @pytest.fixture
    def case(self, make_store: Callable[[], Subject]) -> Case:
        return Case(make_store())


def new_id() -> str:
    """A job id, greater than those before."""
    return f"018f0000-0000-7000-8000-{next(_numbers):012x}"


def new_job(**fields: Any) -> NewJob:
    told: dict[str, Any] = {"id": new_id(), "task": TASK, "queue": QUEUE, "payload": b"[1]"}
    return NewJob(**{**told, **fields})


def worker_record(name: str, **fields: Any) -> WorkerRecord:
    told: dict[str, Any] = {"host": "h", "pid": 1, "queues": (QUEUE,), "tasks": (TASK,), "concurrency": 1}
    return WorkerRecord(id=name, **{**told, **fields})


def wanted(*queues: str, tasks: Sequence[str] = (TASK,), limit: int = 1, lease: int = LONG) -> Want:
    return Want(queues=queues or (QUEUE,), tasks=frozenset(tasks), limit=limit, lease=lease)


def ended(job: JobRecord, path: Path = SUCCEEDED, outcome: Ending = Ending.SUCCESS, **fields: Any) -> Move:
    """A move that ends the job's attempt, by its token."""
    return Move(job=job.id, token=job.token, path=path, outcome=outcome, **fields)


def promise(test: Callable[Concatenate[S, Case, P], Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Makes an async test a plain one, so that pytest needs no plugin for it."""

    @wraps(test)
    def run(self: S, case: Case, *args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(case.run(lambda opened: test(self, opened, *args, **kwargs)))

    return run
