"""Cancel, timeout, shutdown: told once, enforced as far as possible, recorded when the code has ended."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.engine.context import Context
from holdfast.model.errors import OutcomeUnknown, StoreUnavailable
from holdfast.model.lifecycle import State
from holdfast.model.retry import Fixed, Never, Retry
from holdfast.model.task import RunIn
from tests.engine.rig import Gate, Rig


async def for_ever() -> None:
    await asyncio.get_running_loop().create_future()


async def test_a_running_job_is_cancelled_by_its_token() -> None:
    rig = Rig()
    job = await rig.add(rig.task(for_ever))
    async with rig.serving():
        await rig.seen.wait("claimed", job=job)
        await rig.cancel(job)
        await rig.seen.wait("settled", job=job)
    assert await rig.state(job) is State.CANCELLED
    assert await rig.outcomes(job) == ["cancelled"]


@pytest.mark.parametrize("run_in", ["async", "thread"])
async def test_a_cancel_reaches_the_holder_soon_even_when_all_slots_are_taken(run_in: RunIn) -> None:
    def check_blocking(ctx: Context) -> None:
        while True:
            ctx.check()
            threading.Event().wait(0.001)

    async def check_async(ctx: Context) -> None:
        while True:
            ctx.check()
            await asyncio.sleep(0.001)

    rig = Rig(concurrency=1)
    job = await rig.add(rig.task(check_async if run_in == "async" else check_blocking))
    async with rig.serving():
        await rig.seen.wait("claimed", job=job)
        await rig.cancel(job)
        await rig.seen.wait("settled", job=job)
    assert await rig.state(job) is State.CANCELLED


async def test_a_job_that_waits_for_a_slot_is_cancelled_without_having_started() -> None:
    rig = Rig(concurrency=1)
    gate, started = Gate(), []

    async def waits(name: str) -> None:
        started.append(name)
        await gate.pass_async()

    task = rig.task(waits)
    # Asked before the claim, as for a job that failed meanwhile and is claimed again.
    first = await rig.add(task, "first")
    shelf = rig.memory._shelves["default"]
    shelf.jobs[first].cancel_asked = True
    second = await rig.add(task, "second")
    async with rig.serving():
        await gate.wait_entered()
        gate.open()
    assert started == ["second"]
    assert [await rig.state(job) for job in (first, second)] == [State.CANCELLED, State.SUCCESS]
    assert (await rig.history(first))[0].started is None


ENDINGS: dict[str, tuple[Callable[[], Any], State]] = {
    "success that arrives first": (lambda: 1, State.SUCCESS),
    "failure": (lambda: 1 / 0, State.CANCELLED),
    "cancellation": (lambda: (_ for _ in ()).throw(asyncio.CancelledError), State.CANCELLED),
}


@pytest.mark.parametrize("name", ENDINGS)
async def test_what_a_cancelled_handler_ends_with_decides(name: str) -> None:
    end, state = ENDINGS[name]

    async def stubborn() -> Any:
        try:
            await for_ever()
        except asyncio.CancelledError:
            return end()

    rig = Rig()
    job = await rig.add(rig.task(stubborn))
    async with rig.serving():
        await rig.seen.wait("claimed", job=job)
        await rig.cancel(job)
        await rig.seen.wait("settled", job=job)
    assert await rig.state(job) is state


@pytest.mark.parametrize("run_in", ["async", "thread"])
async def test_a_timeout_is_a_failure_with_a_reason(run_in: RunIn) -> None:
    def checks(ctx: Context) -> None:
        while True:
            ctx.check()
            threading.Event().wait(0.001)

    rig = Rig()
    task = rig.task(for_ever if run_in == "async" else checks, timeout=0.02, retry=Never())
    job = await rig.add(task)
    assert await rig.drain() == 0
    record = await rig.job(job)
    assert (record.state, record.reason) == (State.DLQ, "timeout after 0.02 s")


async def test_a_timeout_of_the_job_comes_before_that_of_the_task() -> None:
    rig = Rig()
    task = rig.task(for_ever, timeout=100, retry=Never())
    jobs = [await rig.add(task, timeout=timeout) for timeout in (0.01, 0.000001)]
    assert await rig.drain() == 0
    assert [(await rig.job(job)).reason for job in jobs] == ["timeout after 0.01 s", "timeout after 1e-06 s"]


async def test_a_thread_that_does_not_stop_keeps_its_slot_and_is_shown() -> None:
    rig = Rig(concurrency=2)
    gate = Gate()
    task = rig.task(gate.pass_blocking, timeout=0.2, retry=Never())
    job = await rig.add(task)
    async with rig.serving() as worker:
        await rig.seen.wait("stuck", job=job)
        assert [record.id for record in worker.running] == [job]
        assert await rig.state(job) in {State.CLAIMED, State.RUNNING}, (
            "its code still runs, so it is not released"
        )
        gate.open()
        await rig.seen.wait("settled", job=job)
    assert worker.exit_code == 0


async def test_when_all_slots_are_stuck_the_worker_ends_with_an_error() -> None:
    rig = Rig(concurrency=2)
    gate = Gate()
    task = rig.task(gate.pass_blocking, timeout=0.2)
    jobs = [await rig.add(task) for _ in range(2)]
    try:
        assert await rig.worker().run() == 1
        assert {await rig.state(job) for job in jobs} <= {State.CLAIMED, State.RUNNING}
    finally:
        gate.open()


async def test_until_idle_does_not_wait_for_what_is_stuck() -> None:
    rig = Rig(concurrency=2)
    gate = Gate()
    await rig.add(rig.task(gate.pass_blocking, timeout=0.2))
    try:
        assert await rig.drain() == 1
    finally:
        gate.open()


async def test_shutdown_lets_running_jobs_finish_and_gives_back_the_rest() -> None:
    rig = Rig(concurrency=1)
    gate = Gate()
    task = rig.task(gate.pass_async)
    first, second = await rig.add(task), await rig.add(task)
    worker = rig.worker()
    running = asyncio.create_task(worker.run())
    await gate.wait_entered()
    worker.stop()
    gate.open()
    assert await running == 0
    assert [await rig.state(job) for job in (first, second)] == [State.SUCCESS, State.SCHEDULED]


async def test_after_the_grace_period_running_jobs_are_cancelled_and_released() -> None:
    rig = Rig()
    job = await rig.add(rig.task(for_ever))
    worker = rig.worker()
    running = asyncio.create_task(worker.run())
    await rig.seen.wait("claimed", job=job)
    worker.stop(grace=0.01)
    assert await running == 0
    record = await rig.job(job)
    assert (record.state, record.failures, record.lost) == (State.SCHEDULED, 0, 0)
    assert await rig.outcomes(job) == ["released"]


@pytest.mark.parametrize(
    ("error", "state"), [(ValueError("in the way"), State.SCHEDULED), (Retry(60), State.RETRY)], ids=str
)
async def test_what_a_handler_raises_at_shutdown_does_not_count_unless_it_asks_to_be_retried(
    error: Exception, state: State
) -> None:
    async def raises() -> None:
        try:
            await for_ever()
        except asyncio.CancelledError:
            raise error from None

    rig = Rig()
    job = await rig.add(rig.task(raises, retry=Fixed(5, wait=60)))
    worker = rig.worker()
    running = asyncio.create_task(worker.run())
    await rig.seen.wait("claimed", job=job)
    worker.stop(0)
    await running
    record = await rig.job(job)
    assert record.state is state
    assert record.failures == (1 if isinstance(error, Retry) else 0)


async def test_jobs_that_a_tick_brings_after_the_stop_are_given_back_unstarted() -> None:
    rig = Rig()
    started = []

    async def starts() -> None:
        started.append(1)
        await for_ever()

    gate = asyncio.Event()
    claim = rig.faults.plan("tick", gate=gate, when=lambda tick: tick.want is not None)
    job = await rig.add(rig.task(starts))
    worker = rig.worker()
    running = asyncio.create_task(worker.run())
    await asyncio.to_thread(claim.reached.wait)
    worker.stop(0)
    gate.set()
    assert await running == 0
    assert not started
    assert await rig.outcomes(job) == ["released"]


@pytest.mark.parametrize("how", ["unavailable", "unknown", "hangs"])
async def test_shutdown_does_not_wait_for_a_store_that_is_down(how: str) -> None:
    rig = Rig(lease_seconds=1)
    gate = Gate()
    job = await rig.add(rig.task(gate.pass_async))
    worker = rig.worker()
    running = asyncio.create_task(worker.run())
    await gate.wait_entered()
    if how == "hangs":
        rig.faults.is_dead = True
    else:
        rig.faults.down = StoreUnavailable("gone") if how == "unavailable" else OutcomeUnknown("gone")
    gate.open()
    worker.stop(0.05)
    async with asyncio.timeout(5):
        assert await running == 1, "the outcome was not recorded"
    assert await rig.state(job) in {State.CLAIMED, State.RUNNING}


async def test_shutdown_cancels_handlers_in_time_though_the_store_is_down() -> None:
    rig = Rig(lease_seconds=60)
    ended = asyncio.Event()

    async def waits() -> None:
        try:
            await for_ever()
        finally:
            ended.set()

    job = await rig.add(rig.task(waits))
    worker = rig.worker()
    running = asyncio.create_task(worker.run())
    await rig.seen.wait("claimed", job=job)
    rig.faults.down = StoreUnavailable("gone")
    await rig.seen.wait("tick_failed")
    worker.stop(0)
    await asyncio.wait_for(ended.wait(), 1)
    rig.faults.down = None
    assert await running == 0
    assert await rig.outcomes(job) == ["released"]


async def test_a_worker_that_is_cancelled_ends_its_attempts_and_releases_them() -> None:
    rig = Rig()
    job = await rig.add(rig.task(for_ever))
    running = asyncio.create_task(rig.worker().run())
    await rig.seen.wait("claimed", job=job)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await rig.outcomes(job) == ["released"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_worker_that_is_cancelled_during_a_tick_loses_neither_claims_nor_outcomes() -> None:
    rig = Rig(concurrency=1)
    task = rig.task(good)
    first, second = await rig.add(task), await rig.add(task)
    tick = rig.faults.plan("tick", gate=asyncio.Event(), when=lambda tick: bool(tick.moves))
    running = asyncio.create_task(rig.worker().run())
    await asyncio.to_thread(tick.reached.wait)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await rig.outcomes(first) == ["success"]
    assert await rig.outcomes(second) == ["released"], "the second was claimed by the tick that was cut off"


async def good() -> None: ...


async def test_a_worker_ends_its_attempts_when_the_store_refuses_everything() -> None:
    rig = Rig()
    job = await rig.add(rig.task(for_ever))
    running = asyncio.create_task(rig.worker().run())
    await rig.seen.wait("claimed", job=job)
    rig.faults.plan("tick", session="pump", before=LookupError("broken"), times=float("inf"))
    with pytest.raises(LookupError):
        await running
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_stop_while_the_worker_starts_is_heeded() -> None:
    rig = Rig()
    hooks = []
    in_startup = asyncio.Event()

    async def slow_start() -> None:
        hooks.append("startup")
        in_startup.set()
        await for_ever()

    async def shut_down() -> None:
        hooks.append("shutdown")

    worker = rig.worker(on_startup=slow_start, on_shutdown=shut_down)
    connecting = rig.faults.plan("connect", session="pump", hangs=True)
    running = asyncio.create_task(worker.run())
    await asyncio.to_thread(connecting.reached.wait)
    worker.stop()
    assert await running == 0
    running = asyncio.create_task(worker.run())
    await in_startup.wait()
    worker.stop()
    assert await running == 0
    assert hooks == ["startup"]
    assert await (await rig.memory.connect("default")).fleet.workers() == []


async def test_hooks_run_around_the_jobs_and_one_that_fails_leaves_nothing_behind() -> None:
    rig = Rig()
    order: list[str] = []

    async def works() -> None:
        order.append("job")

    async def start() -> None:
        order.append("startup")

    async def end() -> None:
        order.append("shutdown")
        raise ValueError("a hook")

    await rig.add(rig.task(works))
    with pytest.raises(ValueError, match="a hook"):
        await rig.worker(on_startup=start, on_shutdown=end).run(until_idle=True)
    with pytest.raises(ValueError, match="a hook"):
        await rig.worker(on_startup=end, on_shutdown=start).run(until_idle=True)
    assert order == ["startup", "job", "shutdown", "shutdown"]
    assert await (await rig.memory.connect("default")).fleet.workers() == []


async def test_the_same_worker_can_run_again_as_another_for_the_store() -> None:
    rig = Rig()
    task = rig.task(good)
    worker = rig.worker()
    first = await rig.add(task)
    await worker.run(until_idle=True)
    late = rig.task(for_ever, name="late")
    before, second = worker.id, await rig.add(late)
    async with worker:
        await rig.seen.wait("claimed", job=second)
        assert worker.id != before
        assert "late" in worker.record.tasks
        with pytest.raises(RuntimeError, match="already running"):
            await worker.run()
        worker.stop(0)
    assert [(await rig.history(job))[0].worker for job in (first, second)] == [before, worker.id]


async def test_a_second_run_does_not_inherit_what_the_first_left_stuck() -> None:
    rig = Rig(concurrency=1)
    gate = Gate()
    stuck = await rig.add(rig.task(gate.pass_blocking, timeout=0.2))
    worker = rig.worker()
    try:
        assert await worker.run() == 1
        job = await rig.add(rig.task(good))
        # The answer of its first tick is lost: the same seq as the first run's must not give back its job.
        rig.faults.plan("tick", after=OutcomeUnknown("lost"))
        assert await worker.run(until_idle=True) == 0
        assert await rig.state(job) is State.SUCCESS
        assert (await rig.job(stuck)).run == 1
    finally:
        gate.open()


async def test_an_embedded_worker_that_cannot_start_says_so() -> None:
    rig = Rig()
    rig.faults.plan("register", before=StoreUnavailable("gone"))
    with pytest.raises(StoreUnavailable):
        async with rig.worker():
            raise AssertionError("entered")
