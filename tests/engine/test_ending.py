"""How a worker ends, and starts again: nothing is left running, held or unsaid that need not be."""

import asyncio

import pytest

from holdfast.model.errors import OutcomeUnknown, SchemaMismatch, StoreUnavailable
from holdfast.model.lifecycle import State
from holdfast.model.retry import Fixed, Retry
from tests.engine.rig import Gate, Rig


async def for_ever() -> None:
    await asyncio.get_running_loop().create_future()


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
    await asyncio.wait_for(ended.wait(), 5)
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


async def test_a_stop_in_the_very_turn_in_which_the_worker_becomes_ready_is_heeded() -> None:
    rig = Rig()
    worker = rig.worker()

    async def stop_at_the_end() -> None:
        # The last step of the start: nothing waits any more that the stop could interrupt.
        worker.stop()

    worker._on_startup = stop_at_the_end
    async with asyncio.timeout(5):
        assert await worker.run() == 0


async def test_a_second_stop_while_the_start_is_being_undone_harms_nothing() -> None:
    rig = Rig()
    in_startup, cleaning_up, cleaned_up = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def start_up() -> None:
        try:
            in_startup.set()
            await for_ever()
        finally:
            cleaning_up.set()
            await cleaned_up.wait()

    worker = rig.worker(on_startup=start_up)
    running = asyncio.create_task(worker.run())
    await in_startup.wait()
    worker.stop()
    await cleaning_up.wait()
    worker.stop(0)
    cleaned_up.set()
    assert await running == 0


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
    rig.faults.plan("register", before=SchemaMismatch("too old"))
    with pytest.raises(SchemaMismatch):
        async with rig.worker():
            raise AssertionError("entered")
