"""Promises that hold when calls about the same jobs come at once, each in an order of its own."""

import asyncio
from collections import Counter

from holdfast.model.lifecycle import State
from holdfast.model.records import Edit, Extension, Held, JobRecord, Move, NewJob, Query, Tick, Verdict
from holdfast.store import JobStore
from holdfast.testing.conformance.case import LEASE, LONG, Case, Promises, ended, new_job, promise
from holdfast.testing.conformance.reclaim import lost

ROUNDS = 4
JOBS = 8


def forth(jobs: list[JobRecord]) -> list[JobRecord]:
    return jobs


def back(jobs: list[JobRecord]) -> list[JobRecord]:
    return jobs[::-1]


class CrossingPromises(Promises):
    """Whoever meets others on the way gets its answers, and they fit together."""

    @promise
    async def test_two_who_end_their_own_jobs_and_take_back_each_others_end_each_job_once(
        self, case: Case
    ) -> None:
        stores = await sessions(case, 2)
        for number in range(ROUNDS):
            held = await claimed_by_turns(case, ("ann", "bob"))
            case.advance(2.5)
            answers = await asyncio.gather(
                end_or_take_back(stores[0], "ann", number, forth(held)),
                end_or_take_back(stores[1], "bob", number, back(held)),
            )
            accepted = [job for answer in answers for job in answer]
            assert sorted(accepted) == sorted(job.id for job in held)
            histories = [await case.jobs.history(job.id) for job in held]
            assert [len(history) for history in histories] == [1] * len(held)
            await remove_all(case)

    @promise
    async def test_heartbeats_cancels_and_ends_of_the_same_jobs_all_get_through(self, case: Case) -> None:
        stores = await sessions(case, 4)
        for number in range(ROUNDS):
            held = await claimed_by_turns(case, ("ann",), lease=LONG)
            beaten, asked, _, _ = await asyncio.gather(
                extend(stores[0], forth(held)),
                ask_to_cancel(stores[1], back(held)),
                extend(stores[2], back(held)),
                start(stores[3], number, back(held)),
            )
            assert set(beaten) <= {Held.HELD, Held.CANCEL_ASKED}
            stored = [await case.reload(job) for job in held]
            assert [job.cancel_asked for job in stored] == [job.id in asked for job in held]
            assert {job.state for job in stored} == {State.RUNNING}
            answers = await asyncio.gather(
                end(stores[0], 2 * number, forth(held[: JOBS // 2])),
                extend(stores[1], back(held)),
                end(stores[2], 2 * number + 1, back(held[JOBS // 2 :])),
            )
            assert answers[0] + answers[2] == [Verdict.ACCEPTED] * len(held)
            await remove_all(case)

    @promise
    async def test_cancels_removals_and_prunes_of_the_same_jobs_leave_none(self, case: Case) -> None:
        stores = await sessions(case, 4)
        for _ in range(ROUNDS):
            added = await case.jobs.add([new_job(key=f"k{number}") for number in range(JOBS)])
            jobs = [each.record for each in added]
            answers = await asyncio.gather(
                cancel(stores[0], forth(jobs)),
                cancel(stores[1], back(jobs)),
                delete(stores[2], back(jobs)),
                prune(stores[3]),
            )
            cancelled = [job for answer in answers[:2] for job in answer]
            assert len(cancelled) == len(set(cancelled))
            assert await case.jobs.find(Query()) == []
            assert await case.jobs.count() == []

    @promise
    async def test_adders_of_the_same_keys_in_opposite_orders_make_each_job_once(self, case: Case) -> None:
        stores = await sessions(case, 4)
        for number in range(ROUNDS):
            names = [f"{number}-{one}" for one in range(JOBS)]
            orders = [names, names[::-1], names[3:] + names[:3], names[::-2]]
            batches = [[new_job(key=name, key_ttl=LONG) for name in order] for order in orders]
            added = await asyncio.gather(
                *(store.add(batch) for store, batch in zip(stores, batches, strict=True))
            )
            made = [each.record.key for answer in added for each in answer if each.created]
            assert Counter(made) == Counter(names)
            holders = {each.record.id for answer in added for each in answer}
            assert len(holders) == len(names)

    @promise
    async def test_ends_whose_children_have_the_same_keys_in_opposite_orders_make_each_once(
        self, case: Case
    ) -> None:
        stores = await sessions(case, 2)
        for number in range(ROUNDS):
            held = await claimed_by_turns(case, ("ann", "bob"))
            names = [f"{number}-{one}" for one in range(JOBS // 2)]
            verdicts = await asyncio.gather(
                end_with_children(stores[0], "ann", number, held[::2], names),
                end_with_children(stores[1], "bob", number, held[1::2], names[::-1]),
            )
            assert [*verdicts[0], *verdicts[1]] == [Verdict.ACCEPTED] * len(held)
            found = await case.jobs.find(Query(states=frozenset({State.SCHEDULED})))
            assert Counter(job.key for job in found) == Counter(names)
            await remove_all(case)


async def sessions(case: Case, number: int) -> list[JobStore]:
    return [(await case.open()).jobs for _ in range(number)]


async def claimed_by_turns(case: Case, workers: tuple[str, ...], lease: int = LEASE) -> list[JobRecord]:
    """New jobs, each of which is held by the next of the workers, in the order of their ids."""
    await case.jobs.add([new_job() for _ in range(JOBS)])
    return [
        job for number in range(JOBS) for job in await case.claim(workers[number % len(workers)], lease=lease)
    ]


async def remove_all(case: Case) -> None:
    for job in await case.jobs.find(Query(limit=1000)):
        assert await case.jobs.delete(job.id)


async def end_or_take_back(store: JobStore, worker: str, seq: int, jobs: list[JobRecord]) -> list[str]:
    """Ends what the worker held, and takes back what others hold; which of it was accepted."""
    moves = [ended(job) if job.worker == worker else lost(job, delay=LONG) for job in jobs]
    ticked = await store.tick(Tick(worker=worker, seq=1000 + seq, moves=moves))
    told = zip(jobs, ticked.verdicts, strict=True)
    return [job.id for job, verdict in told if verdict is Verdict.ACCEPTED]


async def end_with_children(
    store: JobStore, worker: str, seq: int, jobs: list[JobRecord], keys: list[str]
) -> list[Verdict]:
    children: list[NewJob] = [new_job(key=key) for key in keys]
    moves = [ended(job, children=(child,)) for job, child in zip(jobs, children, strict=True)]
    return (await store.tick(Tick(worker=worker, seq=1000 + seq, moves=moves))).verdicts


async def end(store: JobStore, seq: int, jobs: list[JobRecord]) -> list[Verdict]:
    moves = [ended(job, reason="told") for job in jobs]
    return (await store.tick(Tick(worker="ann", seq=2000 + seq, moves=moves))).verdicts


async def start(store: JobStore, seq: int, jobs: list[JobRecord]) -> None:
    moves = [Move(job=job.id, token=job.token, path=(State.CLAIMED, State.RUNNING)) for job in jobs]
    verdicts = (await store.tick(Tick(worker="ann", seq=3000 + seq, moves=moves))).verdicts
    assert verdicts == [Verdict.ACCEPTED] * len(jobs)


async def extend(store: JobStore, jobs: list[JobRecord]) -> list[Held]:
    wishes = [Extension(job=job.id, token=job.token, lease=LONG, elapsed=0) for job in jobs]
    return await store.extend("ann", wishes)


async def ask_to_cancel(store: JobStore, jobs: list[JobRecord]) -> list[str]:
    """Asks for each job; which of them stood as they were known."""
    edit = Edit(ask_cancel=True)
    return [job.id for job in jobs if await store.edit(job.id, job.version, edit) is not None]


async def cancel(store: JobStore, jobs: list[JobRecord]) -> list[str]:
    edit = Edit(path=(State.SCHEDULED, State.CANCELLED))
    return [job.id for job in jobs if await store.edit(job.id, job.version, edit) is not None]


async def delete(store: JobStore, jobs: list[JobRecord]) -> None:
    for job in jobs:
        assert await store.delete(job.id)


async def prune(store: JobStore) -> None:
    for _ in range(JOBS):
        await store.prune(0, 3)
