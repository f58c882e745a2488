"""Promises about idempotency keys."""

import asyncio

import pytest

from holdfast.model.errors import KeyConflict
from holdfast.model.lifecycle import DEAD_LETTERED, REPLAYED, SUCCEEDED, Ending, Path, State
from holdfast.model.records import Edit, Query
from holdfast.model.timing import SECOND
from holdfast.testing.conformance.case import LONG, Case, Promises, ended, new_job, promise

TTL = 2 * SECOND


class KeyPromises(Promises):
    """Who holds a key, and for how long."""

    @promise
    async def test_the_holder_of_a_key_is_the_answer(self, case: Case) -> None:
        holder = await case.add(key="k", key_ttl=LONG)
        [answer] = await case.jobs.add([new_job(key="k", key_ttl=LONG, queue="another", priority=5)])
        assert (answer.created, answer.conflict, answer.record) == (False, None, holder)

    @promise
    async def test_a_key_with_another_task_or_payload_is_a_conflict(self, case: Case) -> None:
        holder = await case.add(key="k", key_ttl=LONG)
        for change in ({"task": "other"}, {"payload": b"[2]"}):
            [answer] = await case.jobs.add([new_job(key="k", **change)])
            assert (answer.created, answer.conflict, answer.record) == (False, "key", holder), change
            assert await case.jobs.find(Query()) == [holder]

    @promise
    async def test_headers_are_no_part_of_what_a_job_is(self, case: Case) -> None:
        holder = await case.add(key="k", key_ttl=LONG, headers=b'{"trace":{"traceparent":"1"}}')
        for headers in (b'{"trace":{"traceparent":"2"}}', None):
            for change in ({"id": holder.id}, {"key": "k"}):
                [answer] = await case.jobs.add([new_job(headers=headers, **change)])
                assert (answer.created, answer.conflict, answer.record) == (False, None, holder), change

    @promise
    async def test_an_id_is_looked_at_before_a_key(self, case: Case) -> None:
        plain = await case.add()
        await case.add(key="k", key_ttl=LONG, payload=b"[2]")
        [answer] = await case.jobs.add([new_job(id=plain.id, key="k")])
        assert (answer.conflict, answer.record) == (None, plain)

    @promise
    async def test_a_live_job_holds_its_key_beyond_the_ttl(self, case: Case) -> None:
        waiting = await case.add(key="k", key_ttl=TTL)
        case.advance(3)
        [answer] = await case.jobs.add([new_job(key="k")])
        assert answer.record.id == waiting.id
        running = await case.claim_one()
        [answer] = await case.jobs.add([new_job(key="k")])
        assert answer.record.id == running.id

    @pytest.mark.parametrize(
        ("path", "outcome"),
        [(SUCCEEDED, Ending.SUCCESS), (DEAD_LETTERED, Ending.FAILED)],
        ids=["success", "dlq"],
    )
    @promise
    async def test_a_finished_job_holds_its_key_until_the_ttl_from_its_creation(
        self, case: Case, path: Path, outcome: Ending
    ) -> None:
        job = await case.add_and_claim(key="k", key_ttl=TTL)
        await case.move("ann", ended(job, path, outcome))
        [within] = await case.jobs.add([new_job(key="k", key_ttl=TTL)])
        assert (within.created, within.record.id) == (False, job.id)
        case.advance(2.5)
        [after] = await case.jobs.add([new_job(key="k", key_ttl=TTL)])
        assert after.created

    @promise
    async def test_without_a_ttl_a_key_is_free_once_its_job_is_finished(self, case: Case) -> None:
        job = await case.add_and_claim(key="k")
        await case.move("ann", ended(job))
        [answer] = await case.jobs.add([new_job(key="k")])
        assert answer.created

    @promise
    async def test_a_deleted_job_holds_nothing(self, case: Case) -> None:
        job = await case.add(key="k", key_ttl=LONG)
        assert await case.jobs.delete(job.id)
        [answer] = await case.jobs.add([new_job(key="k", payload=b"[2]")])
        assert answer.created

    @promise
    async def test_a_pruned_job_holds_nothing(self, case: Case) -> None:
        job = await case.add_and_claim(key="k", key_ttl=LONG)
        await case.move("ann", ended(job))
        case.advance(1)
        assert await case.jobs.prune(SECOND // 2, 10) == 1
        [answer] = await case.jobs.add([new_job(key="k", payload=b"[2]")])
        assert answer.created

    @promise
    async def test_an_id_that_comes_back_without_a_key_does_not_hold_the_old_one(self, case: Case) -> None:
        job = await case.add(key="k", key_ttl=LONG)
        await case.jobs.delete(job.id)
        await case.add(id=job.id)
        [answer] = await case.jobs.add([new_job(key="k", payload=b"[2]")])
        assert answer.created

    @promise
    async def test_a_batch_sees_its_own_keys(self, case: Case) -> None:
        answers = await case.jobs.add(
            [
                new_job(key="k", key_ttl=LONG),
                new_job(key="k"),
                new_job(key="k", payload=b"[2]"),
                new_job(key="l"),
            ]
        )
        assert [answer.created for answer in answers] == [True, False, False, True]
        assert [answer.conflict for answer in answers] == [None, None, "key", None]
        assert len({answer.record.id for answer in answers}) == 2

    @promise
    async def test_concurrent_callers_with_one_key_get_one_job(self, case: Case) -> None:
        sessions = [await case.open() for _ in range(8)]
        answers = await asyncio.gather(
            *(session.jobs.add([new_job(key="k", key_ttl=LONG)]) for session in sessions)
        )
        assert len({answer.record.id for [answer] in answers}) == 1
        assert [answer.created for [answer] in answers].count(True) == 1

    @promise
    async def test_an_edit_gives_a_new_key_for_its_own_ttl_and_frees_the_old_one(self, case: Case) -> None:
        job = await case.add(key="old", key_ttl=LONG)
        edited = await case.jobs.edit(job.id, job.version, Edit(key="new", key_ttl=TTL))
        assert edited is not None
        assert edited.key == "new"
        old, new = await case.jobs.add([new_job(key="old"), new_job(key="new")])
        assert old.created
        assert new.record.id == job.id
        await case.jobs.edit(job.id, edited.version, Edit(path=(State.SCHEDULED, State.CANCELLED)))
        [within] = await case.jobs.add([new_job(key="new")])
        assert not within.created
        case.advance(2.5)
        [after] = await case.jobs.add([new_job(key="new")])
        assert after.created

    @promise
    async def test_an_edit_to_a_key_that_is_held_changes_nothing(self, case: Case) -> None:
        await case.add(key="k", key_ttl=LONG)
        job = await case.add()
        with pytest.raises(KeyConflict):
            await case.jobs.edit(job.id, job.version, Edit(key="k", priority=5))
        assert await case.reload(job) == job

    @promise
    async def test_a_replayed_job_takes_its_key_again(self, case: Case) -> None:
        job = await case.add_and_claim(key="k", key_ttl=TTL)
        await case.move("ann", ended(job, DEAD_LETTERED, Ending.FAILED))
        case.advance(2.5)
        dead = await case.reload(job)
        assert await case.jobs.edit(job.id, dead.version, Edit(path=REPLAYED)) is not None
        [answer] = await case.jobs.add([new_job(key="k")])
        assert answer.record.id == job.id

    @promise
    async def test_a_replayed_job_takes_its_key_even_from_a_job_that_held_it_since(self, case: Case) -> None:
        job = await case.add_and_claim(key="k")
        await case.move("ann", ended(job, DEAD_LETTERED, Ending.FAILED))
        between = await case.add_and_claim(key="k")
        await case.move("ann", ended(between))
        dead = await case.reload(job)
        assert await case.jobs.edit(job.id, dead.version, Edit(path=REPLAYED)) is not None
        [answer] = await case.jobs.add([new_job(key="k")])
        assert answer.record.id == job.id

    @promise
    async def test_a_replay_is_refused_while_another_job_holds_its_key(self, case: Case) -> None:
        job = await case.add_and_claim(key="k")
        await case.move("ann", ended(job, DEAD_LETTERED, Ending.FAILED))
        await case.add(key="k")
        dead = await case.reload(job)
        with pytest.raises(KeyConflict):
            await case.jobs.edit(job.id, dead.version, Edit(path=REPLAYED))
        assert await case.reload(job) == dead
        replayed = await case.jobs.edit(job.id, dead.version, Edit(path=REPLAYED, key="fresh"))
        assert replayed is not None
        assert (replayed.state, replayed.key) == (State.SCHEDULED, "fresh")
