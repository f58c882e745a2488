"""Many jobs in one call: batches overlap, and a failure tells what was stored."""

import asyncio
from collections.abc import Sequence

import pytest

from holdfast.engine.enqueuer import Enqueuer
from holdfast.model.errors import OutcomeUnknown, StoreUnavailable
from holdfast.model.records import Added, NewJob
from holdfast.stores.memory import MemoryStore
from holdfast.testing.conformance.case import new_job


class Scripted:
    """A store that answers each batch when it is told to, or fails it."""

    def __init__(self) -> None:
        self.sent: list[list[NewJob]] = []
        self.answers: list[asyncio.Future[None]] = []
        self.arrived = asyncio.Event()

    async def add(self, jobs: Sequence[NewJob]) -> list[Added]:
        self.sent.append(list(jobs))
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.answers.append(answer)
        self.arrived.set()
        await answer
        session = await MemoryStore().connect("n")
        return await session.jobs.add(jobs)

    async def until(self, count: int) -> None:
        while len(self.sent) < count:
            self.arrived.clear()
            await self.arrived.wait()


async def add_many(store: Scripted, jobs: list[NewJob], *, in_order: bool = False) -> list[str]:
    """Adds them two by two; the ids of the answers."""
    enqueuer = Enqueuer(store, batch=2, timeout=5)  # type: ignore[arg-type]
    batches = (jobs[start : start + 2] for start in range(0, len(jobs), 2))
    answers = [answer async for each in enqueuer.add_many(batches, in_order=in_order) for answer in each]
    assert [job for job, _ in answers] == jobs
    return [added.record.id for _, added in answers]


async def test_two_batches_are_under_way_at_once_and_answers_keep_their_order() -> None:
    store = Scripted()
    jobs = [new_job() for _ in range(6)]
    adding = asyncio.create_task(add_many(store, jobs))
    await store.until(2)
    await asyncio.sleep(0)
    assert len(store.sent) == 2
    store.answers[1].set_result(None)
    store.answers[0].set_result(None)
    await store.until(3)
    store.answers[2].set_result(None)
    assert await adding == [job.id for job in jobs]


async def test_what_must_be_in_order_goes_one_batch_after_the_other() -> None:
    store = Scripted()
    jobs = [new_job() for _ in range(4)]
    adding = asyncio.create_task(add_many(store, jobs, in_order=True))
    await store.until(1)
    await asyncio.sleep(0)
    assert len(store.sent) == 1
    store.answers[0].set_result(None)
    await store.until(2)
    store.answers[1].set_result(None)
    assert len(await adding) == 4


async def test_a_failure_tells_how_many_were_stored_whichever_batch_failed() -> None:
    store = Scripted()
    jobs = [new_job() for _ in range(4)]
    adding = asyncio.create_task(add_many(store, jobs))
    await store.until(2)
    store.answers[0].set_exception(StoreUnavailable("away"))
    store.answers[1].set_result(None)
    with pytest.raises(OutcomeUnknown, match="2 jobs were stored, then: away"):
        await adding


async def test_if_nothing_was_stored_the_store_is_said_to_be_away() -> None:
    store = Scripted()
    jobs = [new_job() for _ in range(4)]
    adding = asyncio.create_task(add_many(store, jobs))
    await store.until(2)
    for answer in store.answers:
        answer.set_exception(StoreUnavailable("away"))
    with pytest.raises(StoreUnavailable, match="away"):
        await adding


async def test_a_caller_that_is_cancelled_leaves_nothing_under_way() -> None:
    store = Scripted()
    jobs = [new_job() for _ in range(4)]
    adding = asyncio.create_task(add_many(store, jobs))
    await store.until(2)
    adding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await adding
    await asyncio.sleep(0)
    assert all(answer.cancelled() for answer in store.answers)
