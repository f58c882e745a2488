"""Applications by the preset `jobs`, on any store: at its own pace, or all of it faster by one factor."""

import asyncio
import time
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from holdfast import Holdfast, Job, ScheduleInfo
from holdfast.engine.worker import Worker
from holdfast.model.records import Extension, Held, JobRecord, Tick, Ticked, Want, WorkerRecord
from holdfast.model.timing import EPOCH, SECOND
from holdfast.store import Store
from holdfast.stores import open_store
from tests.engine.faulty import Faults, FaultySession, FaultyStore
from tests.mssql import server

STORES = ("memory", "sqlite", "postgres", "redis", *(["sqlserver"] if server.URL else []))
FASTER = 40
"""Two minutes are three seconds: long enough for a busy machine to answer in an eighth of it."""

FASTER_ON_A_NAMED_SERVER = 10
"""It may be far away, or busy."""

PATIENCE = 60

_seqs = count(1)


class Place(NamedTuple):
    """Where a test keeps its jobs: a namespace that nobody else has."""

    url: str
    namespace: str
    faster: int

    def app(self, **settings: Any) -> Holdfast:
        """By the preset, as it is."""
        return Holdfast(
            self.url, preset="jobs", namespace=self.namespace, enqueue_timeout_seconds=PATIENCE, **settings
        )

    def quick_app(self, **settings: Any) -> Holdfast:
        """By the preset, with lease, heartbeat and poll faster by the factor."""
        whole = Holdfast(self.url, preset="jobs").settings
        return self.app(
            lease_seconds=whole.lease_seconds / self.faster,
            poll_seconds=whole.poll_seconds / self.faster,
            reclaim_seconds=0.1,
            leader_candidate=False,
            **settings,
        )


async def place_on(store: str, request: pytest.FixtureRequest, folder: Path) -> Place:
    """A place on that store, whose tables are there."""
    faster = FASTER_ON_A_NAMED_SERVER if store == "sqlserver" else FASTER
    place = Place(_url(store, request, folder), f"jobs-{uuid4().hex[:12]}", faster)
    opened = open_store(place.url)
    if opened.migrations is not None:
        await opened.migrations.apply()
    await opened.close()
    return place


def _url(store: str, request: pytest.FixtureRequest, folder: Path) -> str:
    if store == "memory":
        return "memory://"
    if store == "sqlite":
        return f"sqlite:///{folder}/jobs.db"
    if store == "sqlserver":
        return server.place("jobs", has_clock=False).url
    fixtures = {"postgres": "postgres_url", "redis": "redis_url"}
    found: str = request.getfixturevalue(fixtures[store])
    return found


class Deaf(FaultyStore):
    """A store without wake-ups; `looks` are the times at which its worker had asked for jobs."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, Faults())
        self.looks: list[float] = []

    async def connect(self, namespace: str) -> FaultySession:
        session = await super().connect(namespace)
        session.wakeups = None
        session.jobs = _Looking(session.jobs, self.looks)
        return session


class _Looking:
    """Notes when the worker got an answer."""

    def __init__(self, jobs: Any, looks: list[float]) -> None:
        self._jobs = jobs
        self._looks = looks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jobs, name)

    async def tick(self, tick: Tick) -> Ticked:
        ticked: Ticked = await self._jobs.tick(tick)
        if tick.want is not None:
            self._looks.append(time.monotonic())
        return ticked


def worker_on(store: Store, app: Holdfast) -> Worker:
    """A worker of the application that reaches its store through this one."""
    return Worker(store, app.registry, app.settings, queues=("default",), notices=app.notices)


async def record_of(app: Holdfast, job: Job[Any]) -> JobRecord:
    """The job as it stands in the store."""
    found = await app.client.session.jobs.get(job.id)
    assert found is not None
    return found


async def outcomes(app: Holdfast, job: Job[Any]) -> list[str]:
    return [attempt.outcome.value for attempt in await app.history(job.id)]


async def claim_and_crash(app: Holdfast, worker: str, lease: int) -> JobRecord:
    """A worker that starts the job that is due, and is never heard of again."""
    record, held = await _claim_and_start(app, worker, lease)
    assert held is Held.HELD
    return record


async def claim_and_crash_soon(app: Holdfast, worker: str, lease: int) -> bool:
    """The same with a lease so short that it may end before the start; whether it did not."""
    _, held = await _claim_and_start(app, worker, lease)
    return held is Held.HELD


async def _claim_and_start(app: Holdfast, worker: str, lease: int) -> tuple[JobRecord, Held]:
    session = app.client.session
    tasks = app.registry.names
    await session.fleet.register(
        WorkerRecord(id=worker, host="h", pid=1, queues=("default",), tasks=tuple(tasks), concurrency=1),
        60 * SECOND,
    )
    want = Want(queues=("default",), tasks=tasks, limit=1, lease=lease)
    seq = next(_seqs)
    [record] = (await session.jobs.tick(Tick(worker=worker, seq=seq, moves=[], want=want))).claimed
    extension = Extension(job=record.id, token=record.token, lease=lease, elapsed=0)
    [held] = await session.jobs.extend(worker, [extension])
    return record, held


def has_due(schedule: ScheduleInfo | None) -> bool:
    return schedule is not None and schedule.next_due is not None


def started(moment: datetime | None) -> datetime:
    """The start of what has one."""
    assert moment is not None
    return moment


def since_1970(moment: datetime) -> timedelta:
    return moment - EPOCH


async def for_ever() -> None:
    await asyncio.get_running_loop().create_future()
