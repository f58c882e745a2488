"""The suite can fail: a store with one fault built in is caught."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from msgspec.structs import replace

import holdfast.stores.memory.jobs as memory_jobs
from holdfast.model.records import Extension, JobRecord, Move, Verdict, Want
from holdfast.store import Store
from holdfast.stores.memory import MemoryStore
from holdfast.stores.memory.fleet import MemoryFleet
from holdfast.stores.memory.jobs import MemoryJobs
from holdfast.stores.memory.lane import Lane
from holdfast.stores.memory.shelf import Shelf
from holdfast.stores.memory.store import MemorySession
from holdfast.testing import ManualClock
from holdfast.testing.conformance import StoreConformance
from holdfast.testing.conformance.machine import ComparedMachine, StoreMachine

TOPICS = StoreConformance.__bases__


def test_no_test_of_a_topic_hides_one_of_another() -> None:
    names = [name for topic in TOPICS for name in vars(topic) if name.startswith("test_")]
    assert len(names) == len(set(names)) > 150


def ignore_the_token(real: Callable[..., Verdict]) -> Callable[..., Verdict]:
    def apply(shelf: Shelf, worker: str, move: Move, now: int) -> Verdict:
        record = shelf.jobs.get(move.job)
        if record is not None and record.worker == worker:
            move = replace(move, token=record.token)
        return real(shelf, worker, move, now)

    return apply


def ignore_the_worker(real: Callable[..., Verdict]) -> Callable[..., Verdict]:
    def apply(shelf: Shelf, worker: str, move: Move, now: int) -> Verdict:
        record = shelf.jobs.get(move.job)
        holder = record.worker if record is not None else None
        return real(shelf, holder or worker, move, now)

    return apply


def keep_old_tokens(real: Callable[..., list[JobRecord]]) -> Callable[..., list[JobRecord]]:
    def claim(shelf: Shelf, worker: str, seq: int, want: Want, now: int) -> list[JobRecord]:
        tokens = {job_id: record.token for job_id, record in shelf.jobs.items()}
        claimed = real(shelf, worker, seq, want, now)
        for job in claimed:
            job.token = shelf.jobs[job.id].token = max(1, tokens[job.id])
        return claimed

    return claim


def revive_expired_leases(real: Callable[..., Any]) -> Callable[..., Any]:
    def extend(jobs: MemoryJobs, worker: str, extension: Extension, now: int) -> Any:
        record = jobs._shelf.jobs.get(extension.job)
        if record is not None and record.lease_until is not None:
            record.lease_until = max(record.lease_until, now + 1)
        return real(jobs, worker, extension, now)

    return extend


FAULTS: list[tuple[object, str, Callable[[Any], Any]]] = [
    (memory_jobs, "apply_move", ignore_the_token),
    (memory_jobs, "apply_move", ignore_the_worker),
    (memory_jobs, "claim", keep_old_tokens),
    (MemoryJobs, "_extend", revive_expired_leases),
]


@contextmanager
def built_in(owner: object, name: str, fault: Callable[[Any], Any]) -> Generator[None]:
    real = getattr(owner, name)
    setattr(owner, name, fault(real))
    try:
        yield
    finally:
        setattr(owner, name, real)


@pytest.mark.parametrize(("owner", "name", "fault"), FAULTS, ids=[fault.__name__ for _, _, fault in FAULTS])
def test_the_machine_catches(owner: object, name: str, fault: Callable[[Any], Any]) -> None:
    class FaultyJobs(MemoryJobs):
        async def tick(self, tick: Any) -> Any:
            with built_in(owner, name, fault):
                return await super().tick(tick)

        async def extend(self, worker: str, extensions: Any) -> Any:
            with built_in(owner, name, fault):
                return await super().extend(worker, extensions)

    class FaultyStore(MemoryStore):
        async def connect(self, namespace: str) -> MemorySession:
            session = await super().connect(namespace)
            session.jobs.__class__ = FaultyJobs
            return session

    class FaultyMachine(ComparedMachine):
        def open_store(self, clock: ManualClock) -> Store:
            return FaultyStore(clock=clock)

    chosen = settings(max_examples=300, phases=[Phase.generate], derandomize=True, database=None)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(FaultyMachine, settings=chosen)


def only_look_at_the_first(real: Callable[..., Any]) -> Callable[..., Any]:
    def oldest(fleet: MemoryFleet, lane: Lane, now: int) -> int | None:
        real(fleet, lane, now)
        shelf = fleet._shelf
        waiting = [shelf.jobs[job_id] for job_id in lane.firsts(shelf.entries)]
        first = min(waiting, key=lambda job: job.priority, default=None)
        return None if first is None else now - max(first.due, first.created)

    return oldest


def count_from_the_due_time(real: Callable[..., Any]) -> Callable[..., Any]:
    def oldest(fleet: MemoryFleet, lane: Lane, now: int) -> int | None:
        real(fleet, lane, now)
        shelf = fleet._shelf
        return max((now - shelf.jobs[job_id].due for job_id in lane.firsts(shelf.entries)), default=None)

    return oldest


@pytest.mark.parametrize("fault", [only_look_at_the_first, count_from_the_due_time])
def test_the_machine_catches_a_wrong_wait(fault: Callable[[Any], Any]) -> None:
    class FaultyMachine(StoreMachine):
        def open_store(self, clock: ManualClock) -> Store:
            return MemoryStore(clock=clock)

    chosen = settings(max_examples=300, phases=[Phase.generate], derandomize=True, database=None)
    with built_in(MemoryFleet, "_oldest", fault), pytest.raises(AssertionError):
        run_state_machine_as_test(FaultyMachine, settings=chosen)
