"""Promises of flow for stores that have wake-ups or transactions."""

import pytest

from holdfast.model.flow import AFTER, LimitRecord, NewFlow, Scope
from holdfast.model.records import Verdict
from holdfast.testing.conformance.case import QUEUE, TASK, Case, Promises, ended, new_job, promise, wanted
from holdfast.testing.conformance.links import add, after, parked
from holdfast.testing.conformance.optional import is_woken, transactions_of, wakeups_of
from holdfast.testing.conformance.sequences import SEQUENCE, in_sequence

ONE = LimitRecord(scope=Scope.QUEUE, name=QUEUE, concurrency=1)


class FlowWakeupPromises(Promises):
    """A listener is told of jobs that nothing holds back any more."""

    @promise
    async def test_a_listener_is_woken_by_the_end_of_a_limited_job(self, case: Case) -> None:
        await case.flow.put([ONE])
        await case.jobs.add([new_job(), new_job(), new_job()])
        [job] = await case.claim(limit=10)
        assert await is_woken(wakeups_of(case), lambda: case.finish(job))
        [job] = await case.claim(limit=10)
        assert await is_woken(wakeups_of(case), lambda: case.flow.remove(Scope.QUEUE, QUEUE))
        assert len(await case.claim("bob", limit=10)) == 1

    @promise
    async def test_a_listener_is_woken_when_a_sequence_goes_on(self, case: Case) -> None:
        await case.jobs.add([in_sequence(), in_sequence(halts=True), in_sequence()])
        [first] = await case.claim(limit=10)
        assert await is_woken(wakeups_of(case), lambda: case.finish(first))
        await case.dead_letter(await case.claim_one())
        assert await case.claim(limit=10) == []
        assert await is_woken(wakeups_of(case), lambda: case.flow.proceed(SEQUENCE))
        assert len(await case.claim(limit=10)) == 1

    @promise
    async def test_a_listener_is_woken_when_nothing_is_left_to_wait_for(self, case: Case) -> None:
        first, second = await case.add(), await case.add()
        held = await add(case, new_job(flow=NewFlow(held=True)))
        waiting = [await add(case, after(first)), await add(case, after(second))]
        [job, _] = await case.claim(limit=10)
        assert await is_woken(wakeups_of(case), lambda: case.finish(job))
        dead = await case.dead_letter(await case.reload(second))
        assert await is_woken(wakeups_of(case), lambda: case.jobs.delete(dead.id))
        assert await is_woken(wakeups_of(case), lambda: case.flow.release(held.id))
        assert {job.id for job in await case.claim(limit=10)} == {held.id, *(job.id for job in waiting)}


class FlowTransactionPromises(Promises):
    """What ends in somebody's transaction makes room with its commit, and not before."""

    @promise
    async def test_a_move_in_a_transaction_makes_room_when_it_commits(self, case: Case) -> None:
        transactions = transactions_of(case)
        await case.flow.put([ONE])
        await case.jobs.add([new_job(), new_job()])
        [job] = await case.claim(limit=10)

        async def fail() -> None:
            async with transactions.begin() as connection:
                await transactions.move_in(connection, case.namespace, "ann", ended(job))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        assert await case.claim(limit=10) == []
        async with transactions.begin() as connection:
            verdict = await transactions.move_in(connection, case.namespace, "ann", ended(job))
        assert verdict is Verdict.ACCEPTED
        assert len(await case.claim(limit=10)) == 1

    @promise
    async def test_it_lets_a_sequence_go_on_and_frees_who_waited_for_it(self, case: Case) -> None:
        transactions = transactions_of(case)
        [first, _] = await case.jobs.add([in_sequence(), in_sequence()])
        waiting = await add(case, after(first.record, queue="other"))
        [job] = await case.claim(limit=10)
        async with transactions.begin() as connection:
            await transactions.move_in(connection, case.namespace, "ann", ended(job))
        claimed = (await case.tick("ann", want=wanted(QUEUE, "other", limit=10))).claimed
        assert {job.id for job in claimed} >= {waiting.id}
        assert len(claimed) == 2

    @promise
    async def test_jobs_added_in_a_transaction_wait_for_others_too(self, case: Case) -> None:
        transactions = transactions_of(case)
        first = await case.add_and_claim()
        new = after(first)
        closing = await add(case, new_job(flow=NewFlow(held=True, after_any=True)))
        member = new_job(flow=NewFlow(before=closing.id, limit_key="k", fair_key="f"))
        async with transactions.begin() as connection:
            await transactions.add_in(connection, case.namespace, [new, member])
        assert await parked(case, await case.reload(new.id)) == AFTER
        assert await case.flow.release(closing.id)
        [job] = await case.claim(limit=10)
        assert (job.id, job.flow and job.flow.limit_key) == (member.id, "k")
        freed = [*await case.finish(first, limit=10), *await case.finish(job, limit=10)]
        assert {job.id for job in freed} == {new.id, closing.id}

    @promise
    async def test_blocking_code_makes_room_when_it_commits(self, case: Case) -> None:
        transactions = transactions_of(case)
        await case.flow.put([LimitRecord(scope=Scope.TASK, name=TASK, concurrency=1)])
        await case.jobs.add([new_job(), new_job()])
        [job] = await case.claim(limit=10)
        with transactions.begin_sync() as connection:
            transactions.move_in_sync(connection, case.namespace, "ann", ended(job))
        assert len(await case.claim(limit=10)) == 1
