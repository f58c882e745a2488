"""Promises of `get`, `states`, `find`, `count`, `history` and `prune`."""

from collections import Counter

import pytest

from holdfast.model.lifecycle import (
    CANCELLED_RUNNING,
    DEAD_LETTERED,
    FAILED_FOR_GOOD,
    REPLAYED,
    RETRIED,
    SUCCEEDED,
    WAITING,
    Ending,
    Path,
    State,
)
from holdfast.model.records import Edit, Query
from holdfast.model.timing import SECOND
from holdfast.testing.conformance.case import LONG, Case, Promises, ended, new_id, new_job, promise, wanted


class FindPromises(Promises):
    """Looking at jobs."""

    @promise
    async def test_what_was_never_there_is_none(self, case: Case) -> None:
        assert await case.jobs.get(new_id()) is None
        assert await case.jobs.history(new_id()) == []

    @promise
    async def test_states_come_in_the_order_asked_for(self, case: Case) -> None:
        one, two = await case.add(), await case.add()
        missing = new_id()
        assert await case.jobs.states([two.id, missing, one.id, two.id]) == [two, None, one, two]
        assert await case.jobs.states([]) == []

    @promise
    async def test_find_gives_all_jobs_by_id_highest_first(self, case: Case) -> None:
        jobs = [await case.add() for _ in range(4)]
        await case.move("ann", ended(await case.claim_one()))
        found = await case.jobs.find(Query())
        assert [job.id for job in found] == [job.id for job in reversed(jobs)]
        assert found[-1].state is State.SUCCESS

    @promise
    async def test_pages_have_no_gaps_and_no_repeats(self, case: Case) -> None:
        jobs = [new_job() for _ in range(23)]
        await case.jobs.add(jobs)
        for job in await case.claim(limit=9):
            await case.move("ann", ended(job))
        seen: list[str] = []
        cursor = None
        while page := await case.jobs.find(Query(cursor=cursor, limit=5)):
            assert len(page) <= 5
            seen += [job.id for job in page]
            cursor = page[-1].id
            await case.add()
        assert seen == sorted((job.id for job in jobs), reverse=True)

    @promise
    async def test_each_condition_of_a_query_narrows_it(self, case: Case) -> None:
        jobs = {
            "plain": new_job(due=100),
            "queue": new_job(queue="other", due=200),
            "task": new_job(task="other", due=300),
            "tags": new_job(tags=("red", "blue"), due=400),
            "later": new_job(due=500),
        }
        await case.jobs.add(list(jobs.values()))
        await case.register("ann")
        [held] = (await case.tick("ann", want=wanted("other"))).claimed
        queries: list[tuple[Query, set[str]]] = [
            (Query(queue="other"), {"queue"}),
            (Query(task="other"), {"task"}),
            (Query(tag="blue"), {"tags"}),
            (Query(tag="blu"), set()),
            (Query(worker="ann"), {"queue"}),
            (Query(states=frozenset({State.CLAIMED, State.RUNNING})), {"queue"}),
            (Query(states=frozenset({State.SCHEDULED})), {"plain", "task", "tags", "later"}),
            (Query(states=frozenset({State.SUCCESS})), set()),
            (Query(due_after=300), {"task", "tags", "later"}),
            (Query(due_before=300), {"plain", "queue"}),
            (Query(due_after=200, due_before=400), {"queue", "task"}),
            (
                Query(states=frozenset({State.SCHEDULED, State.CLAIMED}), due_before=300, queue="other"),
                {"queue"},
            ),
        ]
        for query, names in queries:
            found = {job.id for job in await case.jobs.find(query)}
            assert found == {jobs[name].id for name in names}, query
        await case.move("ann", ended(held))
        assert await case.jobs.find(Query(worker="ann")) == []
        finished = await case.jobs.find(Query(states=frozenset({State.SUCCESS, State.DLQ})))
        assert [job.id for job in finished] == [held.id]

    @promise
    async def test_what_is_read_is_a_copy(self, case: Case) -> None:
        job = await case.add()
        for read in (
            [await case.reload(job)],
            await case.jobs.find(Query()),
            await case.jobs.states([job.id]),
        ):
            assert read[0] is not None
            read[0].state = State.SUCCESS
        assert (await case.reload(job)).state is State.SCHEDULED


class CountPromises(Promises):
    """Counting jobs."""

    @promise
    async def test_with_a_bound_few_are_counted_and_of_many_at_least_so_many_told(self, case: Case) -> None:
        await case.jobs.add([new_job(queue="many") for _ in range(150)])
        await case.jobs.add([new_job(queue="many", delay=LONG) for _ in range(5)])
        await case.add(queue="few", delay=LONG)
        assert await case.jobs.count(1_000_000) == await case.jobs.count()
        many, few = sorted(await case.jobs.count(10), key=lambda count: count.queue, reverse=True)
        assert (few.queue, few.count, few.due, few.exact) == ("few", 1, 0, True)
        assert many.count == 155 if many.exact else many.count >= 100
        assert many.due <= many.count

    @promise
    async def test_counts_tell_queue_state_and_what_is_due(self, case: Case) -> None:
        await case.jobs.add(
            [
                new_job(),
                new_job(),
                new_job(delay=SECOND),
                new_job(queue="other", delay=LONG),
                new_job(priority=-1),
            ]
        )
        await case.move("ann", ended(await case.claim_one(), RETRIED, Ending.RETRY, delay=SECOND))
        assert await counts(case) == {
            ("mail", State.SCHEDULED): (3, 2),
            ("mail", State.RETRY): (1, 0),
            ("other", State.SCHEDULED): (1, 0),
        }
        case.advance(1.5)
        assert await counts(case) == {
            ("mail", State.SCHEDULED): (3, 3),
            ("mail", State.RETRY): (1, 1),
            ("other", State.SCHEDULED): (1, 0),
        }

    @promise
    async def test_counts_equal_what_find_shows_after_every_kind_of_change(self, case: Case) -> None:
        assert await case.jobs.count() == []
        await case.jobs.add(
            [new_job(queue=queue, delay=delay) for queue in "ab" for delay in (0, 0, 0, 0, LONG)]
        )
        await case.register("ann")
        jobs = (await case.tick("ann", want=wanted("a", "b", limit=7))).claimed
        await agree(case)
        endings = [
            (SUCCEEDED, Ending.SUCCESS),
            (RETRIED, Ending.RETRY),
            (DEAD_LETTERED, Ending.FAILED),
            (FAILED_FOR_GOOD, Ending.FAILED),
            (CANCELLED_RUNNING, Ending.CANCELLED),
        ]
        for job, (path, outcome) in zip(jobs, endings, strict=False):
            await case.move("ann", ended(job, path, outcome, delay=0, children=(new_job(queue="c"),)))
            await agree(case)
        dead = await case.reload(jobs[2])
        await case.jobs.edit(dead.id, dead.version, Edit(path=REPLAYED, queue="d"))
        await agree(case)
        await case.jobs.delete(jobs[0].id)
        await agree(case)
        case.advance(1)
        await case.jobs.prune(0, 1)
        await agree(case)
        for waiting in await case.jobs.find(Query(queue="b", states=frozenset({State.SCHEDULED}))):
            await case.jobs.edit(waiting.id, waiting.version, Edit(path=(State.SCHEDULED, State.CANCELLED)))
            await agree(case)


class PrunePromises(Promises):
    """Removing what finished long ago."""

    @pytest.mark.parametrize(
        ("path", "outcome"),
        [
            (SUCCEEDED, Ending.SUCCESS),
            (FAILED_FOR_GOOD, Ending.FAILED),
            (CANCELLED_RUNNING, Ending.CANCELLED),
        ],
        ids=["success", "failed", "cancelled"],
    )
    @promise
    async def test_what_finished_longer_ago_is_removed_with_its_history(
        self, case: Case, path: Path, outcome: Ending
    ) -> None:
        job = await case.add_and_claim()
        await case.move("ann", ended(job, path, outcome))
        assert await case.jobs.prune(3 * SECOND, 10) == 0
        case.advance(2)
        assert await case.jobs.prune(3 * SECOND, 10) == 0
        assert await case.jobs.prune(SECOND, 10) == 1
        assert await case.jobs.get(job.id) is None
        assert await case.jobs.history(job.id) == []
        assert await case.jobs.prune(SECOND, 10) == 0

    @promise
    async def test_live_and_dead_jobs_are_left_alone(self, case: Case) -> None:
        await case.jobs.add([new_job() for _ in range(3)])
        retry, dead, _ = await case.claim(limit=3)
        await case.add()
        await case.move("ann", ended(retry, RETRIED, Ending.RETRY, delay=0))
        await case.move("ann", ended(dead, DEAD_LETTERED, Ending.FAILED))
        case.advance(2)
        assert await case.jobs.prune(0, 100) == 0
        assert len(await case.jobs.find(Query())) == 4
        assert len(await case.jobs.history(dead.id)) == 1

    @promise
    async def test_the_oldest_go_first_up_to_the_limit(self, case: Case) -> None:
        jobs = [await case.add() for _ in range(4)]
        for _ in jobs:
            await case.move("ann", ended(await case.claim_one()))
            case.advance(0.1)
        case.advance(1)
        assert await case.jobs.prune(SECOND, 3) == 3
        assert [job.id for job in await case.jobs.find(Query())] == [jobs[3].id]
        assert await case.jobs.prune(SECOND, 3) == 1

    @promise
    async def test_a_replayed_job_is_not_removed_for_its_earlier_end(self, case: Case) -> None:
        job = await case.add_and_claim()
        await case.move("ann", ended(job, FAILED_FOR_GOOD, Ending.FAILED))
        failed = await case.reload(job)
        assert await case.jobs.edit(job.id, failed.version, Edit(path=(State.FAILED, State.SCHEDULED)))
        case.advance(2)
        await case.move("ann", ended(await case.claim_one()))
        assert await case.jobs.prune(SECOND, 10) == 0
        case.advance(2)
        assert await case.jobs.prune(SECOND, 10) == 1


async def counts(case: Case) -> dict[tuple[str, State], tuple[int, int]]:
    return {(line.queue, line.state): (line.count, line.due) for line in await case.jobs.count()}


async def agree(case: Case) -> None:
    """Fails unless the counts are those of the jobs that can be seen, of which none is due soon."""
    found = await case.jobs.find(Query(limit=1_000))
    soon = max(job.created for job in found) + LONG // 2
    seen = Counter((job.queue, job.state) for job in found)
    due = Counter((job.queue, job.state) for job in found if job.state in WAITING and job.due < soon)
    assert await counts(case) == {place: (number, due[place]) for place, number in seen.items()}
