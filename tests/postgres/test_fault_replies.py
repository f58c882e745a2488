"""The answer to a call is lost: its repeat gives the first answer, and nothing is done twice."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast import OutcomeUnknown
from holdfast.model.lifecycle import DEAD_LETTERED, REPLAYED, RETRIED, Ending, State
from holdfast.model.records import Edit, Extension, Held, JobRecord, Query, Tick, Verdict
from holdfast.model.timing import SECOND
from holdfast.store import Session
from holdfast.testing.conformance.case import ended, new_job, worker_record
from tests.postgres.fault_support import ANN, Rig, claiming, moving, rig
from tests.postgres.proxy import Point

POINTS: tuple[Point, ...] = ("before", "after")


@dataclass(frozen=True)
class Case:
    """A call that changes something: what it is sent as, what it needs, and how it is made.

    `seen` is what the server then has; it must be the same however often the call was made. `repeat` makes
    the call again, if that is not the same call.
    """

    text: str
    prepare: Callable[[Rig], Awaitable[Any]]
    call: Callable[[Session, Any], Awaitable[Any]]
    seen: Callable[[Rig], Awaitable[Any]]
    repeat: Callable[[Session, Any], Awaitable[Any]] | None = None
    is_guarded: bool = False
    """By a version, so that the resilient store does not send it again."""


async def nothing(_: Rig) -> None:
    pass


async def stored(rig: Rig) -> list[tuple[Any, ...]]:
    """All jobs and their attempts, without what a clock says."""
    found = await rig.plain.jobs.find(Query())
    return [
        (
            job.id,
            job.state,
            job.version,
            job.run,
            job.worker,
            job.priority,
            job.cancel_asked,
            await ends(rig, job),
        )
        for job in found
    ]


async def ends(rig: Rig, job: JobRecord) -> list[str]:
    return [attempt.outcome.value for attempt in await rig.plain.jobs.history(job.id)]


async def fleet(rig: Rig) -> object:
    workers = [(worker.id, worker.live) for worker in await rig.plain.fleet.workers()]
    queues = [(queue.name, queue.paused, queue.paused_since) for queue in await rig.plain.fleet.queues()]
    return workers, queues


async def one_job(_: Rig) -> object:
    return new_job(key="k", key_ttl=SECOND * 60)


async def added(rig: Rig) -> JobRecord:
    [job] = await rig.add()
    return job


async def held(rig: Rig) -> JobRecord:
    [job] = await rig.claim()
    return job


async def held_and_more(rig: Rig) -> JobRecord:
    job = await held(rig)
    await rig.add()
    return job


async def two_held(rig: Rig) -> list[JobRecord]:
    return await rig.claim(2)


async def finished(rig: Rig) -> JobRecord:
    job = await held(rig)
    await rig.plain.jobs.tick(moving(2, job))
    return job


async def dead(rig: Rig) -> JobRecord:
    job = await held(rig)
    await rig.plain.jobs.tick(moving(2, job, path=DEAD_LETTERED, outcome=Ending.FAILED, failures=1))
    return (await rig.plain.jobs.states([job.id]))[0] or job


def ended_with_child(job: JobRecord) -> Tick:
    return moving(3, job, children=(new_job(id=job.id[:-12] + "f" + job.id[-11:]),))


CASES: dict[str, Case] = {
    "add": Case("add_v1", one_job, lambda at, job: at.jobs.add([job]), stored),
    "claim": Case(
        "tick_v1",
        added,
        lambda at, _: at.jobs.tick(claiming(7)),
        stored,
        repeat=lambda at, _: at.jobs.tick(claiming(7, repeat=True)),
    ),
    "complete": Case("tick_v1", two_held, lambda at, jobs: at.jobs.tick(moving(7, *jobs)), stored),
    "complete and claim": Case(
        "tick_v1",
        held_and_more,
        lambda at, job: at.jobs.tick(claiming(7, moves=[ended(job)])),
        stored,
        repeat=lambda at, job: at.jobs.tick(claiming(7, moves=[ended(job)], repeat=True)),
    ),
    "complete with child": Case("tick_v1", held, lambda at, job: at.jobs.tick(ended_with_child(job)), stored),
    "retry": Case(
        "tick_v1",
        held,
        lambda at, job: at.jobs.tick(moving(7, job, path=RETRIED, outcome=Ending.RETRY, failures=1)),
        stored,
    ),
    "extend": Case(
        "extend_v1",
        held,
        lambda at, job: at.jobs.extend(
            ANN, [Extension(job=job.id, token=job.token, lease=SECOND, elapsed=1)]
        ),
        stored,
    ),
    "edit": Case(
        "edit_v1",
        added,
        lambda at, job: at.jobs.edit(job.id, job.version, Edit(priority=3)),
        stored,
        is_guarded=True,
    ),
    "cancel": Case(
        "edit_v1",
        added,
        lambda at, job: at.jobs.edit(job.id, job.version, Edit(path=(State.SCHEDULED, State.CANCELLED))),
        stored,
        is_guarded=True,
    ),
    "replay": Case(
        "edit_v1",
        dead,
        lambda at, job: at.jobs.edit(job.id, job.version, Edit(path=REPLAYED)),
        stored,
        is_guarded=True,
    ),
    "ask to stop": Case(
        "edit_v1",
        held,
        lambda at, job: at.jobs.edit(job.id, job.version, Edit(ask_cancel=True)),
        stored,
        is_guarded=True,
    ),
    "delete": Case("forget_v1", added, lambda at, job: at.jobs.delete(job.id), stored),
    "prune": Case("prune_v1", finished, lambda at, _: at.jobs.prune(0, 10), stored),
    "register": Case(
        r"INSERT INTO \S+\.worker",
        nothing,
        lambda at, _: at.fleet.register(worker_record("bob"), 60 * SECOND),
        fleet,
    ),
    "beat": Case(r"UPDATE \S+\.worker", nothing, lambda at, _: at.fleet.beat(ANN, 60 * SECOND), fleet),
    "retire": Case(r"DELETE FROM \S+\.worker", nothing, lambda at, _: at.fleet.retire(ANN), fleet),
    "pause": Case(r"INSERT INTO \S+\.queue", nothing, lambda at, _: at.fleet.pause("mail"), fleet),
    "resume": Case(r"UPDATE \S+\.queue", added, lambda at, _: at.fleet.resume("default"), fleet),
}


@pytest.mark.parametrize("options", ["", "&prepared=off"])
async def test_after_a_lost_answer_a_repeat_does_nothing_more_and_gives_the_first_answer(
    postgres_url: str, options: str
) -> None:
    for name, case in CASES.items():
        for point in POINTS:
            async with rig(postgres_url, options) as here:
                given = await case.prepare(here)
                before = await case.seen(here)
                loss = here.proxy.lose("^COMMIT" if options else case.text, point)
                with pytest.raises(OutcomeUnknown):
                    await case.call(here.bare, given)
                assert loss.met.is_set(), name
                done = await case.seen(here)
                if name not in {"beat", "resume"}:
                    assert (done == before) == (point == "before"), (name, point)
                if case.is_guarded and point == "after":
                    assert await case.call(here.bare, given) is None, name
                else:
                    answer = await (case.repeat or case.call)(here.bare, given)
                    await check_first_answer(name, answer, here, given)
                if point == "after":
                    assert await case.seen(here) == done, name


async def check_first_answer(name: str, answer: Any, here: Rig, given: Any) -> None:
    """The answer is what the first call would have told."""
    if name == "add":
        assert answer[0].record.id == given.id
        assert answer[0].conflict is None
    elif name == "claim":
        [job] = answer.claimed
        assert (job.state, job.run, job.worker) == (State.CLAIMED, 1, ANN)
        assert job == await here.only()
    elif name == "complete and claim":
        assert answer.verdicts == [Verdict.ACCEPTED]
        assert [job.run for job in answer.claimed] == [1]
    elif name in {"complete", "complete with child", "retry"}:
        assert set(answer.verdicts) == {Verdict.ACCEPTED}
    elif name == "extend":
        assert answer == [Held.HELD]
    elif name in {"delete", "beat"}:
        assert answer is True


async def test_the_resilient_store_resolves_a_lost_answer_or_says_that_it_is_unknown(
    postgres_url: str,
) -> None:
    async def check(name: str, case: Case, point: Point) -> None:
        async with rig(postgres_url) as here:
            given = await case.prepare(here)
            loss = here.proxy.lose(case.text, point)
            if case.is_guarded:
                with pytest.raises(OutcomeUnknown):
                    await case.call(here.resilient, given)
            else:
                await check_first_answer(name, await case.call(here.resilient, given), here, given)
            assert loss.met.is_set(), name

    for point in POINTS:
        await asyncio.gather(*(check(name, case, point) for name, case in CASES.items()))


async def test_two_answers_lost_in_a_row_are_one_claim(postgres_url: str) -> None:
    async with rig(postgres_url) as here:
        await here.add(*[new_job() for _ in range(5)])
        for _ in range(2):
            here.proxy.lose("tick_v1")
        ticked = await here.resilient.jobs.tick(claiming(4, limit=2))
        assert len(ticked.claimed) == 2
        found = await here.plain.jobs.find(Query(states=frozenset({State.CLAIMED})))
        assert {job.id for job in found} == {job.id for job in ticked.claimed}


async def test_a_transaction_whose_commit_was_not_answered_is_whole_or_absent(postgres_url: str) -> None:
    async with rig(postgres_url) as here:
        store = here.through_proxy()
        for point in POINTS:
            job = new_job()
            loss = here.proxy.lose("^COMMIT", point)
            with pytest.raises(OutcomeUnknown):
                async with store.transactions.begin() as connection:
                    await store.transactions.add_in(connection, here.namespace, [job])
            assert loss.met.is_set()
            assert (await here.plain.jobs.get(job.id) is not None) == (point == "after")
        await store.close()


async def test_a_blocking_transaction_whose_commit_was_not_answered_is_whole_or_absent(
    postgres_url: str,
) -> None:
    async with rig(postgres_url) as here:
        transactions = here.through_proxy().transactions
        for point in POINTS:
            job = new_job()
            loss = here.proxy.lose("^COMMIT", point)

            def transact(job: Any = job) -> None:
                with transactions.begin_sync() as connection:
                    transactions.add_in_sync(connection, here.namespace, [job])

            with pytest.raises(OutcomeUnknown):
                await asyncio.to_thread(transact)
            assert loss.met.is_set()
            assert (await here.plain.jobs.get(job.id) is not None) == (point == "after")
