"""Of the jobs that shared a crashed process the guilty one is found, and the others pass."""

import asyncio

import pytest

from holdfast.model.errors import OutcomeUnknown
from holdfast.model.lifecycle import State
from holdfast.model.retry import Never
from tests.engine.rig import Gate, Rig

STRONGLY = 4
"""So many losses, of five, and a suspect runs alone."""


def suspected(rig: Rig, *jobs: str, lost: int = 0) -> None:
    for job in jobs:
        record = rig.memory._shelves["default"].jobs[job]
        record.suspect = True
        record.lost = lost


async def test_the_job_that_kills_its_workers_is_dead_lettered_and_the_others_pass() -> None:
    rig = Rig(concurrency=4, lost_limit=3, kill_seconds=0.01)
    crash = asyncio.Event()

    async def guilty() -> None:
        rig.faults.is_dead = True
        crash.set()
        await asyncio.get_running_loop().create_future()

    async def innocent() -> None:
        # Two steps, so that it is under way when the guilty one strikes.
        await asyncio.sleep(0)

    bad = await rig.add(rig.task(guilty))
    task = rig.task(innocent)
    jobs = [await rig.add(task) for _ in range(6)]
    crashes = 0
    while await rig.state(bad) is not State.DLQ:
        running = asyncio.create_task(rig.worker().run(until_idle=True))
        crashed = asyncio.create_task(crash.wait())
        await asyncio.wait({running, crashed}, return_when=asyncio.FIRST_COMPLETED)
        crashes += 1
        assert crash.is_set(), "it is the guilty one that is left, and it runs in every round"
        running.cancel()
        await asyncio.wait({running})
        crash.clear()
        rig.next_process()
        rig.clock.advance(200)
        await rig.reclaim()
    assert crashes <= 4, "the first crash need not have been recorded as a start"
    await rig.drain()
    record = await rig.job(bad)
    assert (record.reason, record.lost, record.failures) == ("worker lost", 3, 0)
    assert record.error == "3 workers were lost while they ran this job"
    assert {await rig.state(job) for job in jobs} == {State.SUCCESS}


@pytest.mark.parametrize(("lost", "together"), [(0, 8), (2, 8), (3, 4), (STRONGLY, 1)])
async def test_a_suspect_starts_only_when_its_start_is_stored_and_beside_the_fewer_the_more_losses_it_has(
    lost: int, together: int
) -> None:
    rig = Rig(concurrency=8)
    at_once = most = 0
    seen: list[State] = []

    async def watched() -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        seen.append(await rig.state(jobs[len(seen)]))
        await asyncio.sleep(0)
        at_once -= 1

    task = rig.task(watched)
    jobs = [await rig.add(task) for _ in range(8)]
    suspected(rig, *jobs, lost=lost)
    assert await rig.drain() == 0
    assert most == together
    assert seen == [State.RUNNING] * 8
    assert {(await rig.job(job)).suspect for job in jobs} == {False}, "they have passed"


async def test_a_crash_of_many_suspects_that_run_long_is_cleared_as_quickly_as_plain_jobs() -> None:
    rig = Rig(concurrency=4, prefetch_seconds=0.3)
    gate = Gate()
    task = rig.task(gate.pass_async)
    jobs = [await rig.add(task) for _ in range(4)]
    suspected(rig, *jobs, lost=1)
    async with rig.serving():
        await gate.wait_entered(4)
        gate.open()
    assert {(await rig.job(job)).run for job in jobs} == {1}, "none was given back"


@pytest.mark.parametrize("is_suspect", [False, True])
async def test_other_jobs_run_beside_a_suspect_that_runs_alone(is_suspect: bool) -> None:
    rig = Rig(concurrency=3)
    gate = Gate()
    waits = rig.task(gate.pass_async)
    first = await rig.add(waits)
    suspected(rig, first, lost=STRONGLY)

    async def good() -> None: ...

    second = await rig.add(rig.task(good))
    if is_suspect:
        suspected(rig, second)
    async with rig.serving():
        await gate.wait_entered()
        await rig.seen.wait("settled", job=second)
        gate.open()
    assert await rig.state(first) is State.SUCCESS


async def test_suspects_that_wait_go_back_after_a_while_on_pause_and_on_shutdown() -> None:
    rig = Rig(concurrency=4, prefetch_seconds=0.3)
    gate = Gate()
    task = rig.task(gate.pass_async)
    first, *others = [await rig.add(task) for _ in range(3)]
    suspected(rig, first, *others, lost=STRONGLY)
    worker = rig.worker()
    async with worker:
        await gate.wait_entered()
        await rig.seen.wait("settled", job=others[0])
        await rig.seen.wait("claimed", count=2, job=others[0])
        fleet = (await rig.memory.connect("default")).fleet
        await fleet.pause("default")
        paused = await rig.seen.wait("settled", count=2, job=others[0])
        await fleet.resume("default")
        await rig.seen.wait("claimed", count=3, job=others[0])
        worker.stop()
        gate.open()
    reasons = [attempt.reason for attempt in await rig.history(others[0])]
    assert reasons == ["waited too long for a slot", "queue paused", "shutdown"]
    assert paused.facts["move"].reason == "queue paused"
    assert {attempt.started for job in others for attempt in await rig.history(job)} == {None}
    assert await rig.state(first) is State.SUCCESS


async def test_a_suspect_is_not_started_when_its_lease_ran_out_while_its_start_was_being_stored() -> None:
    rig = Rig(lease_seconds=0.2)
    started = []

    async def starts() -> None:
        started.append(1)

    job = await rig.add(rig.task(starts))
    suspected(rig, job)
    rig.faults.plan("extend", hangs=True, times=float("inf"))
    lost = rig.faults.plan(
        "tick", after=OutcomeUnknown("lost"), times=float("inf"), when=lambda tick: bool(tick.moves)
    )
    async with rig.serving() as worker:
        await rig.seen.wait("lease_lost", job=job)
        worker.stop(5)
        lost.times = 0
    assert not started
    assert await rig.outcomes(job) == ["released"]


async def test_a_suspect_whose_start_is_under_way_at_the_stop_is_not_started() -> None:
    rig = Rig()
    started = []

    async def starts() -> None:
        started.append(1)

    job = await rig.add(rig.task(starts))
    suspected(rig, job)
    gate = asyncio.Event()
    storing = rig.faults.plan("tick", gate=gate, when=lambda tick: bool(tick.moves))
    async with rig.serving() as worker:
        await asyncio.to_thread(storing.reached.wait)
        worker.stop(60)
        gate.set()
    assert not started
    assert await rig.outcomes(job) == ["released"]


async def test_a_stuck_suspect_does_not_hold_up_the_others() -> None:
    rig = Rig(concurrency=2)
    gate = Gate()

    async def good() -> None: ...

    stuck = await rig.add(rig.task(gate.pass_blocking, timeout=0.2, retry=Never()))
    job = await rig.add(rig.task(good))
    suspected(rig, stuck, job, lost=STRONGLY)
    async with rig.serving():
        await rig.seen.wait("stuck", job=stuck)
        await rig.seen.wait("settled", job=job)
        gate.open()
    assert await rig.state(job) is State.SUCCESS


async def test_suspects_of_few_losses_run_beside_one_that_cannot_bear_another() -> None:
    rig = Rig(concurrency=3)
    gate = Gate()
    task = rig.task(gate.pass_async)
    last = await rig.add(task)
    suspected(rig, last, lost=STRONGLY)
    others = [await rig.add(task) for _ in range(2)]
    suspected(rig, *others, lost=1)
    async with rig.serving():
        await gate.wait_entered(3)
        gate.open()
    assert {await rig.state(job) for job in (last, *others)} == {State.SUCCESS}


async def test_suspects_that_one_worker_cannot_run_yet_come_to_those_that_can() -> None:
    rig = Rig(concurrency=4, prefetch_seconds=0.3, poll_seconds=0.2)
    gate = Gate()
    task = rig.task(gate.pass_async)
    jobs = [await rig.add(task) for _ in range(3)]
    suspected(rig, *jobs, lost=STRONGLY)
    async with rig.serving():
        await gate.wait_entered()
        async with rig.serving(), rig.serving():
            await gate.wait_entered(2)
            gate.open()
    assert {await rig.state(job) for job in jobs} == {State.SUCCESS}
