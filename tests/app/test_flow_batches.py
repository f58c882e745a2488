"""Batches as applications use them: filled, run, cancelled, left open, grown from inside."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast import (
    Context,
    Holdfast,
    JobGone,
    Limit,
    Never,
    OutcomeUnknown,
    State,
    StateConflict,
    StoreUnavailable,
)
from holdfast.engine.batches import BatchInfo
from holdfast.model.records import Added, NewJob
from holdfast.task import Task
from tests.app import flow_tasks


class Shop:
    """An application whose jobs fail as they are told, and what its batches ended with."""

    def __init__(self, **settings: Any) -> None:
        self.app = Holdfast("memory://", leader_candidate=False, poll_seconds=0.05, **settings)
        self.ran: list[int] = []
        self.ended: list[tuple[str, int]] = []

        @self.app.task(retry=Never())
        async def work(number: int, fails: bool = False) -> None:
            self.ran.append(number)
            if fails:
                raise ValueError("as asked")

        @self.app.task
        async def report(ctx: Context) -> None:
            self.ended.append((ctx.job.id, ctx.unmet))

        self.work = work
        self.report = report

    async def drain(self, workers: int = 1) -> None:
        ends = [self.app.worker(["default", "other"]).run(until_idle=True) for _ in range(workers)]
        assert await asyncio.gather(*ends) == [0] * workers


def numbers(info: BatchInfo) -> tuple[int, int, int, int]:
    return info.total, info.pending, info.succeeded, info.failed


async def test_a_callback_runs_once_after_all_jobs_of_several_workers() -> None:
    shop = Shop(concurrency=5)
    async with shop.app:
        async with shop.app.batch(shop.report.call()) as batch:
            for start in range(0, 200, 20):
                calls = [
                    shop.work.call(number, fails=number % 10 == 0) for number in range(start, start + 20)
                ]
                await batch.add(*calls)
        await shop.drain(workers=3)
        assert sorted(shop.ran) == list(range(200))
        assert shop.ended == [(batch.id, 20)]
        info = await batch.info()
        assert numbers(info) == (200, 0, 180, 20)
        assert (info.is_done, info.state) == (True, State.SUCCESS)


async def test_progress_is_told_at_every_step() -> None:
    shop = Shop(concurrency=1)
    async with shop.app:
        async with shop.app.batch(shop.report.call()) as batch:
            [first] = await batch.add(shop.work.call(1))
            assert numbers(await batch.info()) == (1, 1, 0, 0)
            await batch.add(shop.work.using(delay=60).call(2), shop.work.call(3, fails=True))
            await shop.drain()
            info = await batch.info()
            assert (numbers(info), info.is_open, info.is_done) == ((3, 1, 1, 1), True, False)
            assert shop.ended == []
        info = await batch.info()
        assert (info.is_open, info.is_done, info.state) == (False, False, State.SCHEDULED)
        [late] = [job async for job in shop.app.batches.jobs(batch.id) if job[1] is None]
        assert await shop.app.cancel(late[0]) == "cancelled"
        await shop.drain()
        assert shop.ended == [(batch.id, 2)]
        states = {state async for _, state in shop.app.batches.jobs(batch.id)}
        assert states == {State.SUCCESS, State.DLQ, State.CANCELLED}
        assert (await shop.app.get(first.id)) is not None


async def test_a_batch_without_jobs_ends_at_once() -> None:
    shop = Shop()
    async with shop.app:
        async with shop.app.batch(shop.report.call()) as batch:
            assert await batch.add() == []
        await shop.drain()
        assert shop.ended == [(batch.id, 0)]
        async with shop.app.batch() as silent:
            pass
        await shop.drain()
        assert (await silent.info()).state is State.SUCCESS


async def test_a_closed_batch_takes_no_more() -> None:
    shop = Shop()
    async with shop.app:
        async with shop.app.batch() as batch:
            await batch.add(shop.work.call(1))
        with pytest.raises(StateConflict, match="is closed"):
            await batch.add(shop.work.call(2))


async def test_an_exception_in_the_block_cancels_what_is_there() -> None:
    shop = Shop()
    async with shop.app:
        with pytest.raises(ZeroDivisionError):  # noqa: PT012  the block is what is tested
            async with shop.app.batch(shop.report.call()) as batch:
                await batch.add(*[shop.work.call(number) for number in range(3)])
                raise ZeroDivisionError
        await shop.drain()
        assert (shop.ran, shop.ended) == ([], [])
        assert (await batch.info()).state is State.CANCELLED
        with pytest.raises(ZeroDivisionError):
            async with shop.app.batch(shop.report.call()) as unused:
                raise ZeroDivisionError
        with pytest.raises(JobGone):
            await unused.info()


class Failing:
    """The way to add jobs, which fails from some call on, before or after it has stored them."""

    def __init__(self, add: Any, healthy: int, error: Exception, *, stores: bool) -> None:
        self._add = add
        self._healthy = healthy
        self._error = error
        self._stores = stores

    async def __call__(self, jobs: Sequence[NewJob]) -> list[Added]:
        self._healthy -= 1
        if self._healthy >= 0:
            answer: list[Added] = await self._add(jobs)
            return answer
        if self._stores:
            await self._add(jobs)
        raise self._error


@pytest.mark.parametrize(
    ("healthy", "error", "stores"),
    [
        (1, StoreUnavailable("gone"), False),
        (0, OutcomeUnknown("no answer"), True),
        (0, StoreUnavailable("gone"), False),
    ],
    ids=["after the first part", "unknown", "nothing"],
)
async def test_a_batch_whose_first_jobs_were_stored_in_part_is_cancelled(
    healthy: int, error: Exception, stores: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(batch=3)
    async with shop.app:
        jobs = shop.app.client.session.jobs
        with monkeypatch.context() as patch:
            patch.setattr(jobs, "add", Failing(jobs.add, healthy, error, stores=stores))
            with pytest.raises(type(error)):
                async with shop.app.batch(shop.report.call()) as batch:
                    await batch.add(*[shop.work.call(number) for number in range(5)])
        await shop.drain()
        assert (shop.ran, shop.ended) == ([], [])
        assert all(job.state is State.CANCELLED for job in await shop.app.find())
        assert len(await shop.app.find()) == (3 if healthy or stores else 0)
        assert (await shop.app.get(batch.id) is None) == (not healthy and not stores)


async def test_an_error_is_told_though_the_batch_cannot_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop()
    async with shop.app:

        async def edit(*_: object) -> None:
            raise StoreUnavailable("gone")

        with pytest.raises(ZeroDivisionError) as caught:  # noqa: PT012  the block is what is tested
            async with shop.app.batch(shop.report.call()) as batch:
                await batch.add(shop.work.call(1))
                monkeypatch.setattr(shop.app.client.session.jobs, "edit", edit)
                raise ZeroDivisionError
        assert caught.value.__notes__ == [
            f"batch {batch.id} is still open, because it could not be cancelled: gone"
        ]


async def test_jobs_may_be_added_at_once_also_to_different_queues() -> None:
    shop = Shop()
    async with shop.app:
        async with shop.app.batch() as batch:
            await asyncio.gather(
                batch.add(shop.work.call(1)),
                batch.add(shop.work.using(queue="other").call(2)),
                batch.add(shop.work.call(3)),
            )
        await shop.drain()
        assert sorted(shop.ran) == [1, 2, 3]
        assert numbers(await batch.info()) == (3, 0, 3, 0)
        assert (await batch.info()).state is State.SUCCESS


async def test_a_batch_is_cancelled_while_it_runs() -> None:
    shop = Shop(concurrency=2)
    began = asyncio.Event()

    @shop.app.task
    async def hang() -> None:
        began.set()
        await asyncio.Event().wait()

    async with shop.app, shop.app.worker():
        async with shop.app.batch(shop.report.call()) as batch:
            [running, *_] = await batch.add(
                hang.call(), *[shop.work.using(delay=60).call(n) for n in range(3)]
            )
        await began.wait()
        assert await shop.app.batches.cancel(batch.id) == 4
        with pytest.raises(Exception, match="cancelled"):
            await running.result(timeout=5)
        assert numbers(await batch.info()) == (4, 0, 0, 4)
        assert await shop.app.batches.cancel(batch.id) == 0
    assert (shop.ran, shop.ended) == ([], [])


async def test_a_batch_that_its_maker_left_open_is_closed_by_another() -> None:
    shop = Shop()
    async with shop.app:
        batch = shop.app.batch(shop.report.call())
        await batch.add(shop.work.call(1))
        await shop.drain()
        assert (await batch.info()).is_open
        explained = await shop.app.explain(batch.id)
        assert f"holdfast batches close {batch.id}" in str(explained)
        await shop.app.batches.close(batch.id)
        await shop.app.batches.close(batch.id)
        await shop.drain()
        assert shop.ended == [(batch.id, 0)]


@pytest.mark.parametrize(
    "task",
    [flow_tasks.grow, flow_tasks.grow_in_thread, flow_tasks.grow_in_process],
    ids=["async", "thread", "process"],
)
@pytest.mark.process
async def test_a_job_of_a_batch_adds_more_to_it(task: Task[[str, int], None]) -> None:
    app = flow_tasks.app
    async with app.testing() as testing:
        async with app.batch(flow_tasks.count.call()) as batch:
            await batch.add(*[task.call(batch.id, 2) for _ in range(3)])
        await testing.drain()
        info = await batch.info()
        assert numbers(info) == (9, 0, 9, 0)
        assert info.state is State.SUCCESS
        jobs = [job for job in testing.jobs() if job.id != batch.id]
        closing = await app.get(batch.id)
        assert closing is not None
        assert closing.finished is not None
        assert all(job.finished and job.finished <= closing.finished for job in jobs)


async def test_limits_expiry_links_sequences_and_batches_work_in_a_testing_application() -> None:
    shop = Shop()
    order: list[str] = []

    @shop.app.task(limit=Limit(rate=1, per=60), sequence_by="name")
    async def step(name: str, word: str) -> None:
        order.append(name + word)

    async with shop.app.testing() as testing:
        first = await step.enqueue("a", "1")
        last = await step.using(after=[first]).enqueue("b", "1")
        late = await step.using(expires=30).enqueue("a", "2")
        async with shop.app.batch(shop.report.call()) as batch:
            await batch.add(step.call("a", "3"), shop.work.call(7))
        await testing.drain()
        assert (order, shop.ran, shop.ended) == (["a1"], [7], [])
        testing.advance(60)
        await testing.drain()
        assert order == ["a1", "b1"]
        testing.advance(120)
        await testing.drain()
        testing.advance(120)
        await testing.drain()
        assert order == ["a1", "b1", "a3"]
        assert shop.ended == [(batch.id, 0)]
        found = {job.id: job for job in testing.jobs()}
        assert (found[late.id].state, found[late.id].reason) == (State.CANCELLED, "expired")
        assert found[last.id].state is State.SUCCESS
