"""Why a job does not run that a limit, a sequence or another job holds back, in whole sentences."""

import asyncio
from typing import Any

import pytest

from holdfast.engine.batches import Batches
from holdfast.engine.limits import Limits
from holdfast.model.flow import NewFlow
from holdfast.model.records import JobRecord, Tick, Want
from holdfast.model.timing import moment
from tests.app.support import MINUTE, Bench, Benches, new_job


async def add(it: Bench, **flow: Any) -> JobRecord:
    return (await it.client.enqueue(new_job(flow=NewFlow(**flow)))).record


async def look(it: Bench) -> None:
    """Lets a worker that takes everything look at what is due, so that the rest is parked."""
    if not it.workers:
        await it.register()
    want = Want(queues=("default",), tasks=frozenset({"double"}), limit=100, lease=MINUTE)
    it.seq += 1
    await it.session.jobs.tick(Tick(worker="w", seq=it.seq, moves=[], want=want))


def shown(instant: int) -> str:
    return f"{moment(instant):%Y-%m-%d %H:%M:%S} UTC"


async def why(it: Bench, job: JobRecord) -> str:
    return str(await it.client.explain(job.id))


@pytest.mark.parametrize(
    ("limit", "jobs", "words"),
    [
        (
            {"concurrency": 1},
            2,
            "Key 'ann' may have 1 running at once, and 1 is running; no other job waits for that.",
        ),
        (
            {"concurrency": 2},
            4,
            "Key 'ann' may have 2 running at once, and 2 are running; 1 other job waits for that too.",
        ),
        ({"rate": 1, "per": 30}, 2, "Key 'ann' may have 1 begun in 30 s; no other job waits for that."),
        (
            {"concurrency": 2, "rate": 50},
            5,
            (
                "Key 'ann' may have 2 running at once and 50 begun in 1 s, which is one every 0.02 s; "
                "3 other jobs wait for that too."
            ),
        ),
        (
            {"rate": 10, "per": 60, "burst": 3},
            5,
            (
                "Key 'ann' may have 10 begun in 60 s (after a pause 3 at once), which is one every 6 s; "
                "1 other job waits for that too."
            ),
        ),
    ],
)
async def test_a_limit_says_what_it_allows_and_who_else_waits(
    bench: Benches, limit: dict[str, Any], jobs: int, words: str
) -> None:
    async with bench() as it:
        await Limits(lambda: it.session).set(key="ann", **limit)
        added = [await add(it, limit_key="ann") for _ in range(jobs)]
        await look(it)
        assert await why(it, added[-1]) == words
        facts = (await it.client.explain(added[-1].id)).facts
        assert facts["limited_by"] == "key:ann"


async def test_what_is_paused_or_not_limited_any_more_says_so(bench: Benches) -> None:
    async with bench() as it:
        limits = Limits(lambda: it.session)
        await limits.pause(task="double")
        job = await add(it)
        it.clock.advance(5)
        words = f"Task 'double' has been paused since {shown(job.created)}"
        assert await why(it, job) == f"{words}; no live worker is known."
        await look(it)
        assert await why(it, job) == f"{words}."
        assert (await it.client.explain(job.id)).facts["paused_since"] == moment(job.created)
        await limits.resume(task="double")
        assert await why(it, job) == (
            "A limit on task 'double' held it back, and is gone by now; the next claim looks at it again."
        )


async def test_a_gate_without_room_is_told_before_a_claim_has_met_the_job_there(bench: Benches) -> None:
    async with bench() as it:
        await Limits(lambda: it.session).set(key="tenant-7", concurrency=1)
        await add(it, limit_key="tenant-7")
        await look(it)
        job = await add(it, limit_key="tenant-7")
        assert await why(it, job) == (
            "Key 'tenant-7' may have 1 running at once, and 1 is running; no other job waits for that."
        )
        assert (await it.client.explain(job.id)).facts["limited_by"] == "key:tenant-7"


async def test_a_job_says_which_others_it_comes_after(bench: Benches) -> None:
    async with bench() as it:
        others = [await add(it) for _ in range(5)]
        one = await add(it, after=(others[0].id,))
        all_of_them = await add(it, after=tuple(job.id for job in others))
        await it.register()
        assert await why(it, one) == f"It comes after 1 job that is not done: {others[0].id}."
        first = ", ".join(job.id for job in others[:3])
        assert await why(it, all_of_them) == f"It comes after 5 jobs that are not done: {first} and 2 more."


async def test_a_dead_job_before_it_is_named_with_what_to_do(bench: Benches) -> None:
    async with bench() as it:
        await add(it)
        dead = await it.bury()
        alive = await add(it)
        job = await add(it, after=(alive.id, dead.id))
        assert await why(it, job) == (
            f"It comes after 2 jobs that are not done: {dead.id}, {alive.id}; {dead.id} is in the "
            "dead-letter queue until you replay or discard it."
        )


async def test_a_job_whose_condition_can_not_be_met_says_that_it_will_be_cancelled(bench: Benches) -> None:
    async with bench() as it:
        await it.register()
        other = await add(it)
        job = await add(it, after=(other.id,))
        await it.client.cancel(other.id)
        assert await why(it, job) == (
            "1 job that it comes after did not succeed, so the worker that takes it cancels it."
        )


async def test_the_end_of_a_batch_says_that_the_batch_is_open_or_what_is_not_done(bench: Benches) -> None:
    async with bench() as it:
        await it.register()
        closing = await add(it, held=True, after_any=True)
        jobs = await asyncio.gather(*(add(it, before=closing.id) for _ in range(1_100)))
        sentence = await why(it, closing)
        assert sentence.startswith("Its batch is still open")
        assert sentence.endswith(f"close it: holdfast batches close {closing.id}.")
        await Batches(lambda: it.client).close(closing.id)
        await asyncio.gather(*(it.client.cancel(job.id) for job in jobs[:-1]))
        assert await why(it, closing) == f"It comes after 1 job that is not done: {jobs[-1].id}."


async def test_a_sequence_says_whether_it_goes_on(bench: Benches) -> None:
    async with bench() as it:
        first, second = [await add(it, sequence="account", halts=True) for _ in range(2)]
        dead = await it.claim()
        assert dead.id == first.id
        await look(it)
        assert await why(it, second) == (
            "Others come before it in sequence 'account', which runs one job at a time."
        )


async def test_a_halted_sequence_says_who_halted_it_and_what_to_do(bench: Benches) -> None:
    async with bench() as it:
        first, second = [await add(it, sequence="account", halts=True) for _ in range(2)]
        await it.bury()
        await look(it)
        assert await why(it, second) == (
            f"Sequence 'account' was halted by job {first.id}, which failed for good; replay or discard that "
            "job, or go on without it: holdfast sequences proceed account."
        )
        await it.client.replay(first.id)
        assert await why(it, second) == (
            f"Sequence 'account' waits for job {first.id}, which had halted it and is tried again."
        )
