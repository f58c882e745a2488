"""Attempts that complete in a transaction of their own: only the store knows whether they did."""

import asyncio
from collections.abc import Coroutine, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from holdfast.engine.context import Context
from holdfast.model.errors import LeaseLost, StoreUnavailable
from holdfast.model.events import NewEvent
from holdfast.model.lifecycle import State
from holdfast.model.records import Added, Move, NewJob, Tick, Verdict
from holdfast.model.retry import Fixed
from holdfast.model.scheduling import ScheduleWrite, Term
from holdfast.stores.memory import MemoryStore
from tests.engine.rig import Rig


class OneMove:
    """Transactions of a store that has none: the move is made when the block is left, and not on an error."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    @contextmanager
    def begin_sync(self) -> Generator[list[Coroutine[Any, Any, Any]]]:
        pending: list[Coroutine[Any, Any, Any]] = []
        yield pending
        for each in pending:
            _done(each)

    def move_in_sync(self, connection: Any, namespace: str, worker: str, move: Move) -> Verdict:
        session = _done(self._store.connect(namespace))
        record = _done(session.jobs.get(move.job))
        if record.token != move.token or record.worker != worker:
            return Verdict.REFUSED
        tick = Tick(worker=worker, seq=0, moves=[move])
        connection.append(session.jobs.tick(tick))
        return Verdict.ACCEPTED

    async def move_in(self, connection: Any, namespace: str, worker: str, move: Move) -> Verdict:
        return self.move_in_sync(connection, namespace, worker, move)

    def begin(self) -> Any:
        raise NotImplementedError

    def add_in_sync(self, connection: Any, namespace: str, jobs: Sequence[NewJob]) -> list[Added]:
        raise NotImplementedError

    async def add_in(self, connection: Any, namespace: str, jobs: Sequence[NewJob]) -> list[Added]:
        raise NotImplementedError

    def append_in_sync(self, connection: Any, namespace: str, events: Sequence[NewEvent]) -> None:
        raise NotImplementedError

    async def append_in(self, connection: Any, namespace: str, events: Sequence[NewEvent]) -> None:
        raise NotImplementedError

    def write_in_sync(self, connection: Any, namespace: str, write: ScheduleWrite, term: Term) -> Verdict:
        raise NotImplementedError

    async def write_in(self, connection: Any, namespace: str, write: ScheduleWrite, term: Term) -> Verdict:
        raise NotImplementedError


def _done(work: Coroutine[Any, Any, Any]) -> Any:
    """Operations of the memory store never wait."""
    try:
        work.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it had to wait")


def rig(**settings: Any) -> Rig:
    made = Rig(**settings)
    made.store.transactions = OneMove(made.memory)
    return made


def completes(ctx: Context) -> str:
    with ctx.sync_transaction() as transaction:
        transaction.complete("in the transaction")
    return "not this"


async def test_a_completion_in_a_transaction_is_confirmed_by_the_store_and_told_once() -> None:
    bench = rig()
    job = await bench.add(bench.task(completes))
    assert await bench.drain() == 0
    assert (await bench.job(job)).result == b'"in the transaction"'
    assert await bench.outcomes(job) == ["success"]
    assert len(bench.seen.of("settled", job=job)) == 1


async def test_a_completion_that_the_caller_never_commits_is_a_failure() -> None:
    def forgets(ctx: Context) -> None:
        pending: list[Coroutine[Any, Any, Any]] = []
        ctx.complete_in_sync(pending)
        for each in pending:
            each.close()

    bench = rig()
    job = await bench.add(bench.task(forgets, retry=Fixed(3, wait=60)))
    assert await bench.drain() == 0
    record = await bench.job(job)
    assert (record.state, record.reason) == (State.RETRY, "the handler's transaction was not committed")


async def test_a_failure_after_the_commit_changes_nothing_and_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails_late(ctx: Context) -> None:
        completes(ctx)
        raise ValueError("after the commit")

    bench = rig()
    job = await bench.add(bench.task(fails_late))
    assert await bench.drain() == 0
    assert await bench.outcomes(job) == ["success"]
    [line] = [each for each in caplog.records if each.message == "late report refused"]
    assert vars(line)["fields"]["reason"] == "ValueError: after the commit"
    [notice] = bench.seen.of("settled", job=job)
    assert (notice.facts["verdict"], notice.facts["move"].reason) == (
        Verdict.REFUSED,
        "ValueError: after the commit",
    )


async def test_a_superseded_attempt_cannot_commit() -> None:
    refused: list[LeaseLost] = []

    def late(ctx: Context) -> None:
        if ctx.run == 1:
            bench.clock.advance(1000)
            assert asyncio.run(bench.reclaim()) == 1
        try:
            completes(ctx)
        except LeaseLost as error:
            refused.append(error)
            raise

    bench = rig(reclaim_seconds=5)
    job = await bench.add(bench.task(late))
    assert await bench.drain() == 0
    assert len(refused) == 1
    assert await bench.outcomes(job) == ["superseded", "success"]


@pytest.mark.parametrize("error", [StoreUnavailable("gone"), KeyError("a bug"), None], ids=repr)
async def test_the_store_is_asked_until_it_answers(error: Exception | None) -> None:
    bench = rig(lease_seconds=60, call_timeout_seconds=0.1)
    job = await bench.add(bench.task(completes))
    bench.faults.plan("get", before=error, hangs=error is None, times=2)
    assert await bench.drain() == 0
    assert len(bench.seen.of("settled", job=job)) == 1


async def test_a_store_that_never_answers_does_not_hold_up_the_end() -> None:
    bench = rig(lease_seconds=60, call_timeout_seconds=0.1)
    await bench.add(bench.task(completes))
    asking = bench.faults.plan("get", hangs=True, times=float("inf"))
    worker = bench.worker()
    running = asyncio.create_task(worker.run())
    await asyncio.to_thread(asking.reached.wait)
    worker.stop(0)
    assert await running == 1
    assert asyncio.all_tasks() == {asyncio.current_task()}
