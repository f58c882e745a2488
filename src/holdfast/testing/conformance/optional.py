"""Promises of what a store may have or not: wake-ups, migrations, transactions."""

import asyncio
from collections.abc import Awaitable, Callable
from threading import Event

import pytest

from holdfast.model.lifecycle import RETURNED, Ending, State
from holdfast.model.records import Edit, Verdict
from holdfast.store import Migrations, Transactions, Wakeups
from holdfast.testing.conformance.case import LONG, QUEUE, Case, Promises, ended, new_job, promise

SOON = 5
"""Seconds in which a wake-up must have come."""


class WakeupPromises(Promises):
    """A listener is told soon, from any thread, until it stops listening."""

    @promise
    async def test_a_listener_is_woken_by_all_that_makes_work_for_it(self, case: Case) -> None:
        job = await case.add_and_claim()

        async def ask_to_stop() -> None:
            stored = await case.reload(job)
            assert await case.jobs.edit(job.id, stored.version, Edit(ask_cancel=True))

        async def release() -> None:
            await case.move("ann", ended(job, RETURNED, Ending.RELEASED))

        async def add() -> None:
            await case.jobs.add([new_job(), new_job(delay=LONG)])

        for change in (add, ask_to_stop, release, lambda: case.fleet.resume(QUEUE)):
            assert await is_woken(wakeups_of(case), change), change

    @promise
    async def test_other_sessions_are_woken_too(self, case: Case) -> None:
        wakeups_of(case)
        other = await case.open()
        assert other.wakeups is not None
        assert await is_woken(other.wakeups, lambda: case.jobs.add([new_job()]))

    @promise
    async def test_who_stopped_listening_is_not_woken(self, case: Case) -> None:
        listening = wakeups_of(case)
        woken: list[str] = []
        stop = listening.listen(lambda: woken.append("stopped"))
        stop()
        stop()
        assert await is_woken(listening, lambda: case.jobs.add([new_job()]))
        assert woken == []

    @promise
    async def test_a_listener_that_fails_does_not_undo_the_work(self, case: Case) -> None:
        def fail() -> None:
            raise RuntimeError("the event loop is closed")

        stop = wakeups_of(case).listen(fail)
        job = await case.add()
        stop()
        assert await case.jobs.get(job.id) is not None


class MigrationPromises(Promises):
    """The schema is applied once, whoever applies it."""

    @promise
    async def test_applying_again_or_at_once_applies_nothing_twice(self, case: Case) -> None:
        migrations = migrations_of(case)
        await migrations.apply()
        assert await migrations.pending() == []
        assert await asyncio.gather(*(migrations.apply() for _ in range(3))) == [[], [], []]

    @promise
    async def test_the_schema_can_be_read_as_sql(self, case: Case) -> None:
        assert "create table" in migrations_of(case).as_sql().lower()


class TransactionPromises(Promises):
    """What is done in somebody's transaction stands or falls with it."""

    @promise
    async def test_jobs_are_added_with_the_commit(self, case: Case) -> None:
        transactions = transactions_of(case)
        job = new_job(key="k", key_ttl=LONG)
        async with transactions.begin() as connection:
            [added] = await transactions.add_in(connection, case.namespace, [job])
            assert added.created
        assert (await case.reload(job.id)) == added.record
        [again] = await case.jobs.add([new_job(key="k")])
        assert again.record.id == job.id

    @promise
    async def test_jobs_are_gone_with_a_rollback(self, case: Case) -> None:
        transactions = transactions_of(case)
        job = new_job(key="k", key_ttl=LONG)

        async def fail() -> None:
            async with transactions.begin() as connection:
                await transactions.add_in(connection, case.namespace, [job])
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        assert await case.jobs.get(job.id) is None
        assert await case.jobs.count() == []
        [added] = await case.jobs.add([new_job(key="k", payload=b"[2]")])
        assert added.created

    @promise
    async def test_a_move_is_guarded_as_in_a_tick(self, case: Case) -> None:
        transactions = transactions_of(case)
        job = await case.add_and_claim()
        child = new_job()
        async with transactions.begin() as connection:
            stranger = await transactions.move_in(connection, case.namespace, "bob", ended(job))
            verdict = await transactions.move_in(
                connection, case.namespace, "ann", ended(job, children=(child,))
            )
        assert (stranger, verdict) == (Verdict.REFUSED, Verdict.ACCEPTED)
        assert (await case.reload(job)).state is State.SUCCESS
        assert (await case.reload(child.id)).state is State.SCHEDULED
        assert [attempt.outcome for attempt in await case.jobs.history(job.id)] == [Ending.SUCCESS]

    @promise
    async def test_a_move_is_undone_with_a_rollback(self, case: Case) -> None:
        transactions = transactions_of(case)
        job = await case.add_and_claim()

        async def fail() -> None:
            async with transactions.begin() as connection:
                await transactions.move_in(connection, case.namespace, "ann", ended(job))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        assert await case.reload(job) == job
        assert await case.jobs.history(job.id) == []
        assert await case.move("ann", ended(job)) is Verdict.ACCEPTED

    @promise
    async def test_blocking_code_has_the_same(self, case: Case) -> None:
        transactions = transactions_of(case)
        job = await case.add_and_claim()
        kept, dropped = new_job(), new_job()

        def commit() -> Verdict:
            with transactions.begin_sync() as connection:
                transactions.add_in_sync(connection, case.namespace, [kept])
                return transactions.move_in_sync(connection, case.namespace, "ann", ended(job))

        def roll_back() -> None:
            with transactions.begin_sync() as connection:
                transactions.add_in_sync(connection, case.namespace, [dropped])
                raise ZeroDivisionError

        assert await asyncio.to_thread(commit) is Verdict.ACCEPTED
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(roll_back)
        assert (await case.reload(job)).state is State.SUCCESS
        assert await case.jobs.get(kept.id) is not None
        assert await case.jobs.get(dropped.id) is None


def wakeups_of(case: Case) -> Wakeups:
    assert case.session.wakeups is not None
    return case.session.wakeups


def migrations_of(case: Case) -> Migrations:
    assert case.store.migrations is not None
    return case.store.migrations


def transactions_of(case: Case) -> Transactions:
    assert case.store.transactions is not None
    return case.store.transactions


async def is_woken(wakeups: Wakeups, change: Callable[[], Awaitable[object]]) -> bool:
    woken = Event()
    stop = wakeups.listen(woken.set)
    try:
        await change()
        return await asyncio.to_thread(woken.wait, SOON)
    finally:
        stop()
