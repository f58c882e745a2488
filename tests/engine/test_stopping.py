"""Cancel and timeout: told once, enforced as far as possible, recorded when the code has ended."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.engine.context import Context
from holdfast.model.lifecycle import State
from holdfast.model.retry import Never
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
