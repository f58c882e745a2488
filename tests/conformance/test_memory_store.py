"""What is special to the memory store: opening, sharing, its clock, and its cost."""

import asyncio
import tracemalloc
from threading import Thread

import pytest

from holdfast.model.errors import ConfigurationError
from holdfast.model.lifecycle import State
from holdfast.model.records import Edit, NewJob, Query, Tick, Want
from holdfast.model.timing import SECOND
from holdfast.store import Store
from holdfast.stores.memory import MemoryStore
from holdfast.stores.memory.store import steady_clock
from holdfast.testing import ManualClock
from holdfast.testing.conformance.case import new_job, wanted, worker_record

LONG = 1_000 * SECOND


def test_a_store_opened_without_a_name_is_private() -> None:
    assert MemoryStore.from_url("memory://") is not MemoryStore.from_url("memory://")


def test_stores_of_one_name_are_one_store() -> None:
    assert MemoryStore.from_url("memory://one") is MemoryStore.from_url("memory://one")
    assert MemoryStore.from_url("memory://one") is not MemoryStore.from_url("memory://two")


@pytest.mark.parametrize("url", ["memory://a/b", "memory://user@host", "memory://a?x=1", "memory://a#b"])
def test_a_name_that_looks_like_more_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="memory://name"):
        MemoryStore.from_url(url)


def test_it_has_neither_migrations_nor_transactions() -> None:
    store: Store = MemoryStore()
    assert (store.migrations, store.transactions) == (None, None)


async def test_the_facts_say_that_everything_is_lost_with_the_process() -> None:
    facts = await MemoryStore().facts()
    assert "lost with the process" in facts["durability"]


def test_its_clock_never_goes_back() -> None:
    clock = steady_clock()
    readings = [clock() for _ in range(1_000)]
    assert readings == sorted(readings)


async def test_sessions_on_other_threads_and_loops_share_the_data() -> None:
    store = MemoryStore()
    job = new_job()

    async def add() -> None:
        await (await store.connect("n")).jobs.add([job])

    thread = Thread(target=lambda: asyncio.run(add()))
    thread.start()
    thread.join()
    assert await (await store.connect("n")).jobs.get(job.id) is not None


async def test_jobs_that_come_and_go_leave_nothing_behind() -> None:
    session = await MemoryStore(ManualClock()).connect("n")
    shelf = session.jobs._shelf

    async def churn(rounds: int, delay: int) -> None:
        for _ in range(rounds):
            job = new_job(delay=delay, key="k", key_ttl=LONG)
            await session.jobs.add([job])
            assert await session.jobs.delete(job.id)

    for delay in (0, LONG):
        await churn(6_000, delay)
        lane = shelf.lanes["mail"]
        left = len(lane.later) + sum(len(line._run) + len(line._heap) for line in lane.lines.values())
        assert left < 2_500
    kept = (shelf.jobs, shelf.keys, shelf.entries, shelf.attempts, shelf.leases)
    assert [len(index) for index in kept] == [0] * 5


async def test_jobs_edited_often_are_still_served_in_order() -> None:
    session = await MemoryStore(ManualClock()).connect("n")
    await session.fleet.register(worker_record("ann"), LONG)
    jobs: list[NewJob] = [new_job() for _ in range(20)]
    await session.jobs.add(jobs)
    for version in range(1, 200):
        for rank, job in enumerate(jobs):
            delay = LONG if version % 2 else 0
            await session.jobs.edit(job.id, version, Edit(priority=(rank * version) % 7, delay=delay))
    stored = await session.jobs.find(Query(limit=100, states=frozenset({State.SCHEDULED})))
    for record in stored:
        await session.jobs.edit(record.id, record.version, Edit(delay=0))
    want = wanted(limit=100)
    claimed = (await session.jobs.tick(Tick(worker="ann", seq=1, moves=[], want=want))).claimed
    assert [(job.priority, job.due, job.id) for job in claimed] == sorted(
        (job.priority, job.due, job.id) for job in claimed
    )
    assert len(claimed) == 20


async def test_a_claim_does_not_look_at_jobs_that_are_not_due_or_not_wanted() -> None:
    clock = ManualClock()
    session = await MemoryStore(clock).connect("n")
    await session.fleet.register(worker_record("ann"), LONG)
    await session.jobs.add([new_job(delay=LONG) for _ in range(5_000)])
    await session.jobs.add([new_job(task="unknown", priority=-1) for _ in range(5_000)])
    await session.jobs.add([new_job()])
    want: Want = wanted(limit=10)
    tracemalloc.start()
    try:
        ticked = await session.jobs.tick(Tick(worker="ann", seq=1, moves=[], want=want))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(ticked.claimed) == 1
    assert peak < 50_000
