"""Promises that hold when many sessions, loops and threads work at once."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from holdfast.model.lifecycle import RETURNED, Ending
from holdfast.model.records import NewJob, Query, Tick, Verdict
from holdfast.testing.conformance.case import LONG, Case, Promises, ended, new_job, promise, wanted

T = TypeVar("T")

WORKERS = 6


class ConcurrencyPromises(Promises):
    """No job is ever given to two claimers, and nothing is lost between them."""

    @promise
    async def test_concurrent_claimers_get_disjoint_jobs(self, case: Case) -> None:
        jobs = [new_job() for _ in range(60)]
        await case.jobs.add(jobs)
        sessions = [await case.open() for _ in range(WORKERS)]
        for number in range(WORKERS):
            await case.register(f"w{number}")
        ticks = [
            session.jobs.tick(Tick(worker=f"w{number}", seq=seq, moves=[], want=wanted(limit=4)))
            for seq in range(1, 4)
            for number, session in enumerate(sessions)
        ]
        claimed = [job.id for ticked in await asyncio.gather(*ticks) for job in ticked.claimed]
        assert len(claimed) == len(set(claimed)) == 60

    @promise
    async def test_claimers_on_many_threads_complete_every_job_once(self, case: Case) -> None:
        jobs = [new_job() for _ in range(120)]
        await case.jobs.add(jobs)
        for number in range(WORKERS):
            await case.register(f"w{number}")

        async def work(worker: str) -> list[str]:
            session = await case.store.connect(case.namespace)
            done: list[str] = []
            seq = 0
            try:
                while True:
                    seq += 1
                    claim = Tick(worker=worker, seq=seq, moves=[], want=wanted(limit=5))
                    claimed = (await session.jobs.tick(claim)).claimed
                    if not claimed:
                        return done
                    seq += 1
                    moves = [ended(job) for job in claimed]
                    ticked = await session.jobs.tick(Tick(worker=worker, seq=seq, moves=moves))
                    assert ticked.verdicts == [Verdict.ACCEPTED] * len(moves)
                    done += [job.id for job in claimed]
            finally:
                await session.close()

        done = [job for answer in await on_threads(work) for job in answer]
        assert sorted(done) == sorted(job.id for job in jobs)
        histories = [await case.jobs.history(job.id) for job in jobs]
        assert {len(history) for history in histories} == {1}

    @promise
    async def test_tokens_of_one_job_are_never_given_twice(self, case: Case) -> None:
        job = await case.add()
        for number in range(WORKERS):
            await case.register(f"w{number}")

        async def work(worker: str) -> list[int]:
            session = await case.store.connect(case.namespace)
            tokens: list[int] = []
            try:
                for seq in range(1, 21):
                    claim = Tick(worker=worker, seq=seq, moves=[], want=wanted())
                    for held in (await session.jobs.tick(claim)).claimed:
                        tokens.append(held.token)
                        release = ended(held, RETURNED, Ending.RELEASED)
                        await session.jobs.tick(Tick(worker=worker, seq=100 + seq, moves=[release]))
                return tokens
            finally:
                await session.close()

        tokens = [token for answer in await on_threads(work) for token in answer]
        assert len(tokens) == len(set(tokens)) > 0
        history = await case.jobs.history(job.id)
        assert [attempt.token for attempt in history] == sorted(tokens)
        assert [attempt.run for attempt in history] == list(range(1, len(tokens) + 1))

    @promise
    async def test_adders_on_many_threads_with_the_same_keys_make_each_job_once(self, case: Case) -> None:
        async def work(_worker: str) -> list[str]:
            session = await case.store.connect(case.namespace)
            try:
                made: list[str] = []
                for number in range(20):
                    batch: list[NewJob] = [new_job(key=f"k{number}", key_ttl=LONG)]
                    made += [added.record.id for added in await session.jobs.add(batch) if added.created]
                return made
            finally:
                await session.close()

        made = [job for answer in await on_threads(work) for job in answer]
        assert len(made) == len(set(made)) == 20
        found = await case.jobs.find(Query(limit=100))
        assert Counter(job.key for job in found) == Counter(f"k{number}" for number in range(20))


async def on_threads(work: Callable[[str], Coroutine[Any, Any, T]]) -> list[T]:
    """Does the work once for each worker, each on a thread and an event loop of its own."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(WORKERS) as threads:
        return await asyncio.gather(
            *(loop.run_in_executor(threads, asyncio.run, work(f"w{number}")) for number in range(WORKERS))
        )
