import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from holdfast.engine.client import CancelAnswer, Client
from holdfast.engine.groups import DeadLetters, Queues
from holdfast.engine.ids import new_id
from holdfast.model import lifecycle
from holdfast.model.errors import (
    IdConflict,
    InvalidJob,
    JobGone,
    KeyConflict,
    StateConflict,
    VersionConflict,
)
from holdfast.model.lifecycle import Ending, State
from holdfast.model.options import Options
from holdfast.model.records import Edit, JobRecord
from holdfast.model.task import Call, define
from tests.app.support import bench, double, new_job


async def test_the_same_key_gives_the_same_job_also_to_concurrent_callers() -> None:
    async with bench() as it:
        calls = [it.client.enqueue(new_job(key="order-42", key_ttl=10**9)) for _ in range(20)]
        answers = await asyncio.gather(*calls)
        assert len({answer.record.id for answer in answers}) == 1
        assert sum(answer.created for answer in answers) == 1


async def test_a_key_of_other_work_and_an_id_of_other_work_are_conflicts() -> None:
    async with bench() as it:
        first = await it.client.enqueue(new_job(key="k", key_ttl=10**9))
        with pytest.raises(KeyConflict, match=f"'k' belongs to job {first.record.id}"):
            await it.client.enqueue(new_job(key="k", payload=b'{"number":2}'))
        with pytest.raises(IdConflict, match=first.record.id):
            await it.client.enqueue(new_job(id=first.record.id, payload=b'{"number":2}'))
        again = await it.client.enqueue(new_job(id=first.record.id))
        assert not again.created


async def test_many_calls_are_stored_in_order_over_several_batches() -> None:
    async with bench(batch=10) as it:
        task = define(double)
        calls = [Call(task, task.encode_arguments((number,), {})) for number in range(35)]
        jobs = await it.client.enqueue_many(calls)
        assert [job.id for job in jobs] == sorted(job.id for job in jobs)
        assert (await it.client.stats()).queued == 35


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["x"], r"call: 'x' is not a call; give what task\.call\(\.\.\.\) returns"),
        ([Call(define(double), b'{"number":1}'), double], "call: <function double"),
        (Call(define(double), b'{"number":1}'), "calls: give a list"),
    ],
)
async def test_what_is_no_call_is_refused_before_anything_is_stored(given: Any, message: str) -> None:
    async with bench() as it:
        with pytest.raises(InvalidJob, match=message):
            await it.client.enqueue_many(given)
        assert (await it.client.stats()).queued == 0


async def test_a_conflict_among_many_is_raised_after_the_others_are_stored() -> None:
    async with bench() as it:
        await it.client.enqueue(new_job(key="k", key_ttl=10**9))
        task = define(double)
        calls = [
            Call(task, b'{"number":5}'),
            Call(task, b'{"number":6}', Options.of(key="k")),
            Call(task, b'{"number":7}'),
        ]
        with pytest.raises(KeyConflict):
            await it.client.enqueue_many(calls)
        assert (await it.client.stats()).queued == 3


@pytest.mark.parametrize("job_id", ["", "nope", "\0", "\ud800", "x" * 300, str(UUID(int=1)), UUID(int=1)])
async def test_an_id_that_is_not_there_is_none_or_gone(job_id: Any) -> None:
    async with bench() as it:
        assert await it.client.get(job_id) is None
        assert await it.client.history(job_id) == []
        assert not await it.client.delete(job_id)
        assert "never there" in str(await it.client.explain(job_id))
        edit = partial(it.client.edit, priority=1)
        for call in (it.client.cancel, it.client.replay, edit, it.client.result):
            with pytest.raises(JobGone):
                await call(job_id)


async def test_an_id_is_known_in_every_form() -> None:
    async with bench() as it:
        added = await it.client.enqueue(new_job())
        for form in (added.record.id, added.record.id.upper(), UUID(added.record.id)):
            found = await it.client.get(form)
            assert found is not None
            assert found.id == added.record.id


async def test_a_waiting_job_is_cancelled_at_once_and_again_is_the_same_answer() -> None:
    async with bench() as it:
        added = await it.client.enqueue(new_job(delay=10**9))
        assert await it.client.cancel(added.record.id) is CancelAnswer.CANCELLED
        assert await it.client.cancel(added.record.id) is CancelAnswer.CANCELLED
        job = await it.client.get(added.record.id)
        assert job is not None
        assert job.state is State.CANCELLED


async def test_the_holder_of_a_leased_job_is_asked_to_stop() -> None:
    async with bench() as it:
        await it.client.enqueue(new_job())
        record = await it.claim()
        assert await it.client.cancel(record.id) is CancelAnswer.ASKED
        version = (await it.session.jobs.states([record.id]))[0]
        assert await it.client.cancel(record.id) is CancelAnswer.ASKED
        assert (await it.session.jobs.states([record.id]))[0] == version
        job = await it.client.get(record.id)
        assert job is not None
        assert job.cancel_asked


async def test_a_finished_job_cannot_be_cancelled() -> None:
    async with bench() as it:
        await it.client.enqueue(new_job())
        record = await it.succeed()
        assert await it.client.cancel(record.id) is CancelAnswer.FINISHED


async def test_a_retry_that_waits_is_cancelled_at_once() -> None:
    async with bench() as it:
        await it.client.enqueue(new_job())
        record = await it.claim()
        await it.end(record, lifecycle.RETRIED, Ending.RETRY, delay=10**9, failures=1)
        assert await it.client.cancel(record.id) is CancelAnswer.CANCELLED


class Interfering:
    """A job store in which somebody else claims, or edits, between a read and the write that follows."""

    def __init__(self, inner: Any, interfere: Any, times: int) -> None:
        self._inner = inner
        self._interfere = interfere
        self._times = times

    async def edit(self, job_id: str, version: int, edit: Edit) -> JobRecord | None:
        if self._times:
            self._times -= 1
            await self._interfere()
        result: JobRecord | None = await self._inner.edit(job_id, version, edit)
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def disturb(client: Client, interfere: Any, times: int) -> None:
    client._jobs = Interfering(client._jobs, interfere, times)


async def test_a_job_that_is_claimed_while_it_is_being_cancelled_is_asked() -> None:
    async with bench() as it:
        added = await it.client.enqueue(new_job())
        disturb(it.client, it.claim, 1)
        assert await it.client.cancel(added.record.id) is CancelAnswer.ASKED


async def test_a_job_that_others_change_without_end_is_given_up() -> None:
    async with bench() as it:
        added = await it.client.enqueue(new_job(delay=10**9))

        async def change() -> None:
            record = await it.session.jobs.get(added.record.id)
            assert record is not None
            await it.session.jobs.edit(record.id, record.version, Edit(priority=record.version))

        disturb(it.client, change, 1_000)
        with pytest.raises(VersionConflict, match="20 times"):
            await it.client.cancel(added.record.id)


async def test_an_edit_changes_what_is_given_and_nothing_else() -> None:
    async with bench() as it:
        added = await it.client.enqueue(new_job(tags=("a",), priority=3))
        at = datetime.now(UTC) + timedelta(hours=1)
        job = await it.client.edit(added.record.id, version=1, queue="other", at=at)
        assert (job.queue, job.due, job.priority, job.tags, job.version) == ("other", at, 3, ("a",), 2)
        job = await it.client.edit(added.record.id, tags=["b"], delay=0, priority=-1)
        assert (job.queue, job.priority, job.tags, job.version) == ("other", -1, ("b",), 3)
        assert job.due < at


async def test_the_loser_of_two_edits_gets_a_version_conflict() -> None:
    async with bench() as it:
        added = await it.client.enqueue(new_job())
        answers = await asyncio.gather(
            *(it.client.edit(added.record.id, version=1, priority=number) for number in range(5)),
            return_exceptions=True,
        )
        assert sum(isinstance(answer, VersionConflict) for answer in answers) == 4


async def test_a_claim_between_read_and_edit_is_a_conflict_and_no_lost_update() -> None:
    async with bench() as it:
        added = await it.client.enqueue(new_job())
        disturb(it.client, it.claim, 1)
        with pytest.raises(VersionConflict, match="version 2, not 1"):
            await it.client.edit(added.record.id, version=1, priority=9)


async def test_leased_and_finished_jobs_are_not_edited() -> None:
    async with bench() as it:
        await it.client.enqueue(new_job())
        record = await it.claim()
        with pytest.raises(StateConflict, match="is claimed; only scheduled, retry and dlq"):
            await it.client.edit(record.id, priority=1)
        await it.end(record, lifecycle.SUCCEEDED, Ending.SUCCESS)
        with pytest.raises(StateConflict, match="is success"):
            await it.client.edit(record.id, priority=1)


async def test_a_wrong_edit_is_refused_before_anything_is_read() -> None:
    async with bench() as it:
        with pytest.raises(InvalidJob, match="queue: "):
            await it.client.edit(new_id(), queue="a b")
        with pytest.raises(InvalidJob, match="delay"):
            await it.client.edit(new_id(), delay=1, at=datetime.now(UTC))
        with pytest.raises(InvalidJob, match="nothing was given to change; give queue, priority"):
            await it.client.edit(new_id(), version=1)


async def test_a_replayed_job_has_all_its_attempts_again() -> None:
    async with bench() as it:
        await it.client.enqueue(new_job())
        record = await it.bury()
        job = await it.client.replay(record.id)
        assert (job.state, job.failures, job.lost, job.run) == (State.SCHEDULED, 0, 0, 1)
        assert [attempt.outcome for attempt in await it.client.history(job.id)] == [Ending.FAILED]
        assert (await it.claim()).token > record.token


async def test_a_job_that_rests_as_failed_is_replayed_too() -> None:
    async with bench() as it:
        await it.client.enqueue(new_job())
        record = await it.claim()
        await it.end(record, lifecycle.FAILED_FOR_GOOD, Ending.FAILED, failures=1)
        assert (await it.client.replay(record.id)).state is State.SCHEDULED


async def test_a_replay_can_take_a_new_key_unless_other_work_has_it() -> None:
    async with bench() as it:
        await it.client.enqueue(new_job())
        record = await it.bury()
        await it.client.enqueue(new_job(key="taken", payload=b'{"number":9}', delay=10**9))
        with pytest.raises(KeyConflict):
            await it.client.replay(record.id, key="taken")
        job = await it.client.replay(record.id, key="fresh")
        assert job.key == "fresh"
        assert not (await it.client.enqueue(new_job(key="fresh"))).created


async def test_only_the_dead_are_replayed() -> None:
    async with bench() as it:
        await it.client.enqueue(new_job())
        record = await it.succeed()
        with pytest.raises(StateConflict, match="is success; only dlq and failed"):
            await it.client.replay(record.id)


async def test_a_leased_job_is_not_deleted() -> None:
    async with bench() as it:
        await it.client.enqueue(new_job())
        record = await it.claim()
        with pytest.raises(StateConflict, match="cancel it first"):
            await it.client.delete(record.id)
        await it.end(record, lifecycle.SUCCEEDED, Ending.SUCCESS)
        assert await it.client.delete(record.id)
        assert await it.client.get(record.id) is None


async def test_pages_follow_each_other_without_gap_or_overlap() -> None:
    async with bench() as it:
        added = [(await it.client.enqueue(new_job())).record.id for _ in range(7)]
        seen: list[str] = []
        cursor = None
        while True:
            page = await it.client.find(limit=3, cursor=cursor)
            seen += [job.id for job in page]
            cursor = page.cursor
            if cursor is None:
                break
        assert seen == added[::-1]


async def test_jobs_are_found_by_what_they_are() -> None:
    async with bench() as it:
        plain = (await it.client.enqueue(new_job())).record.id
        tagged = (await it.client.enqueue(new_job(tags=("x",), queue="q", delay=10**12))).record.id
        found = {
            "tag": await it.client.find(tag="x"),
            "queue": await it.client.find(queue="q"),
            "due": await it.client.find(due_after=datetime.now(UTC) + timedelta(days=1)),
        }
        assert {name: [job.id for job in page] for name, page in found.items()} == {
            name: [tagged] for name in found
        }
        assert [job.id for job in await it.client.find(queue="default")] == [plain]
        assert await it.client.find(state="dlq") == []
        assert len(await it.client.find(state=["scheduled", State.RETRY])) == 2


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"state": "gone"}, "state"),
        ({"limit": 0}, "limit"),
        ({"limit": 1_001}, "limit"),
        ({"queue": "a'b"}, "queue"),
        ({"cursor": "\0"}, "cursor"),
        ({"cursor": "zzz"}, "cursor"),
        ({"due_after": datetime(2026, 1, 1)}, "due_after"),  # noqa: DTZ001
    ],
)
async def test_a_wrong_query_is_named(query: dict[str, Any], field: str) -> None:
    async with bench() as it:
        with pytest.raises(InvalidJob) as refusal:
            await it.client.find(**query)
        assert refusal.value.field == field


async def test_statistics_count_by_state_by_queue_and_in_six_groups() -> None:
    async with bench() as it:
        for _ in range(3):
            await it.client.enqueue(new_job())
        await it.succeed()
        await it.bury()
        await it.claim()
        await it.client.enqueue(new_job(queue="other"))
        later = await it.client.enqueue(new_job(queue="other", delay=10**9))
        await it.client.enqueue(new_job(queue="other", delay=10**9))
        await it.client.cancel(later.record.id)
        stats = await it.client.stats()
        assert (stats.queued, stats.scheduled, stats.in_progress) == (1, 1, 1)
        assert (stats.completed, stats.failed, stats.cancelled) == (1, 1, 1)
        assert stats.by_state[State.DLQ] == 1
        assert stats.by_queue["other"].queued == 1
        assert stats.by_queue["other"].by_state[State.CANCELLED] == 1
        assert sum(stats.by_state.values()) == 6


async def test_queues_are_paused_resumed_and_listed() -> None:
    async with bench() as it:
        queues = Queues(lambda: it.client)
        await it.client.enqueue(new_job(queue="busy"))
        await queues.pause("idle")
        listed = {queue.name: queue for queue in await queues.list()}
        assert (listed["idle"].paused, listed["idle"].counts.queued) == (True, 0)
        assert (listed["busy"].paused, listed["busy"].counts.queued) == (False, 1)
        await queues.resume("idle")
        assert not any(queue.paused for queue in await queues.list())
        with pytest.raises(InvalidJob, match="queue"):
            await queues.pause("a b")


async def test_the_dead_are_replayed_and_discarded_in_bulk() -> None:
    async with bench() as it:
        dlq = DeadLetters(lambda: it.client)
        for number in range(6):
            await it.client.enqueue(new_job(tags=("odd",) if number % 2 else ()))
        buried = [(await it.bury()).id for _ in range(6)]
        assert len(await dlq.list()) == 6
        assert await dlq.replay(tag="odd", limit=2) == 2
        assert await dlq.replay(tag="odd") == 1
        assert await dlq.replay(tag="odd") == 0
        rest = [job.id for job in await dlq.list()]
        assert await dlq.discard([rest[0], buried[1], new_id()]) == 1
        assert await dlq.discard() == 2
        assert await dlq.list() == []
        assert (await it.client.stats()).queued == 3


async def test_workers_are_told_with_what_they_serve() -> None:
    async with bench() as it:
        await it.register("w-1", queues=("a", "b"))
        (worker,) = await it.client.workers()
        assert (worker.id, worker.queues, worker.tasks, worker.live) == ("w-1", ("a", "b"), ("double",), True)
        it.clock.advance(3_600)
        (worker,) = await it.client.workers()
        assert not worker.live
