"""Jobs of vanished workers come back, whatever else goes wrong."""

import asyncio

import pytest
from msgspec.structs import replace

from holdfast.engine.ids import new_id
from holdfast.engine.janitor import Janitor
from holdfast.model.errors import StoreUnavailable
from holdfast.model.lifecycle import State
from holdfast.model.progress import Progress, Subscriber, as_write
from holdfast.model.records import Tick, Want, WorkerRecord
from holdfast.model.timing import SECOND
from holdfast.testing.conformance.events import new_event
from tests.engine.rig import Gate, Rig


async def good() -> None: ...


async def vanish(rig: Rig, count: int, *, started: bool = False) -> list[str]:
    """Jobs that a worker claimed, and perhaps started, before it vanished; their leases have expired."""
    task = rig.registry.find("good") or rig.task(good)
    jobs = [await rig.add(task) for _ in range(count)]
    session = await rig.memory.connect("default")
    await session.fleet.register(
        WorkerRecord(id="gone", host="h", pid=1, queues=("default",), tasks=(), concurrency=1), SECOND
    )
    want = Want(queues=("default",), tasks=frozenset({"good"}), limit=count, lease=SECOND)
    ticked = await session.jobs.tick(Tick(worker="gone", seq=1, moves=[], want=want))
    assert len(ticked.claimed) == count
    if started:
        for record in ticked.claimed:
            rig.memory._shelves["default"].jobs[record.id].state = State.RUNNING
            counts = rig.memory._shelves["default"].lanes["default"].counts
            counts[State.CLAIMED] -= 1
            counts[State.RUNNING] += 1
    rig.clock.advance(2)
    return jobs


async def test_any_live_worker_takes_back_the_jobs_of_one_that_vanished() -> None:
    rig = Rig(reclaim_seconds=0.05)
    rig.task(good)
    jobs = await vanish(rig, 3)
    async with rig.serving():
        for job in jobs:
            await rig.seen.wait("settled", job=job)
    assert [await rig.outcomes(job) for job in jobs] == [["lost", "success"]] * 3
    assert {(await rig.job(job)).lost for job in jobs} == {0}, "none had started"


async def test_a_job_that_was_asked_to_stop_is_cancelled_with_its_lost_worker() -> None:
    rig = Rig()
    (job,) = await vanish(rig, 1)
    await rig.cancel(job)
    assert await rig.reclaim() == 1
    record = await rig.job(job)
    assert (record.state, record.reason) == (State.CANCELLED, "cancelled; its worker was lost")


async def test_at_the_limit_of_losses_a_job_is_dead_lettered_with_the_reason() -> None:
    rig = Rig(lost_limit=2)
    (job,) = await vanish(rig, 1, started=True)
    rig.memory._shelves["default"].jobs[job].lost = 1
    assert await rig.reclaim() == 1
    record = await rig.job(job)
    assert (record.state, record.reason, record.lost) == (State.DLQ, "worker lost", 2)


async def test_one_job_that_cannot_be_moved_does_not_hold_up_the_others() -> None:
    rig = Rig()
    jobs = await vanish(rig, 5)
    session = await rig.store.connect("default")
    rig.faults.plan(
        "tick",
        before=ValueError("a row"),
        times=float("inf"),
        when=lambda tick: any(move.job == jobs[2] for move in tick.moves),
    )
    assert await Janitor(session, "janitor", rig.settings, rig.notices).reclaim() == 4
    states = [await rig.state(job) for job in jobs]
    assert states == [State.CLAIMED if job == jobs[2] else State.SCHEDULED for job in jobs]


async def test_a_worker_does_not_take_back_what_it_is_running_itself() -> None:
    rig = Rig(reclaim_seconds=0.05, lease_seconds=60)
    gate = Gate()
    job = await rig.add(rig.task(gate.pass_async))
    async with rig.serving():
        await gate.wait_entered()
        # The lease has expired for the store, as after a long pause, and the next heartbeat is far away.
        rig.clock.advance(61)
        (other,) = await vanish(rig, 1)
        await rig.seen.wait("reclaimed", job=other)
        gate.open()
        await rig.seen.wait("settled", job=job)
    assert await rig.outcomes(job) == ["success"]


@pytest.mark.parametrize("cause", ["shutdown", "timeout"])
async def test_a_handler_that_outlives_its_worker_is_a_loss_unless_it_was_cut_by_a_shutdown(
    cause: str,
) -> None:
    rig = Rig(grace_seconds=0, kill_seconds=0.05, lease_seconds=60)
    gate = Gate()
    job = await rig.add(rig.task(gate.pass_blocking, timeout=0.2 if cause == "timeout" else None))
    async with rig.serving():
        await gate.wait_entered()
        await rig.mark_running(job)
        if cause == "timeout":
            await rig.seen.wait("stuck", job=job)
    gate.open()
    rig.clock.advance(61)
    assert await rig.reclaim() == 1
    record = await rig.job(job)
    assert (record.state, record.lost, record.suspect) == (
        (State.SCHEDULED, 0, False) if cause == "shutdown" else (State.SCHEDULED, 1, True)
    )


async def test_more_jobs_than_one_batch_are_all_taken_back() -> None:
    rig = Rig()
    jobs = await vanish(rig, 450)
    assert await rig.reclaim() == 450
    assert {await rig.state(job) for job in jobs} == {State.SCHEDULED}


@pytest.mark.parametrize("error", [StoreUnavailable("gone"), KeyError("a bug"), TimeoutError()], ids=repr)
async def test_a_sweep_that_fails_is_made_again(error: Exception) -> None:
    rig = Rig(reclaim_seconds=0.05)
    (job,) = await vanish(rig, 1)
    rig.faults.plan("expired", before=error, times=3)
    async with rig.serving():
        await rig.seen.wait("reclaimed", job=job)


async def test_finished_jobs_are_removed_when_retention_is_over() -> None:
    rig = Rig(retention_seconds=60)
    task = rig.task(good)
    jobs = [await rig.add(task) for _ in range(450)]
    await rig.drain()
    rig.clock.advance(61)
    session = await rig.memory.connect("default")
    janitor = Janitor(session, "janitor", rig.settings, rig.notices)
    assert await janitor.prune() == 450
    assert await session.jobs.states(jobs) == [None] * 450
    sweeping = asyncio.create_task(janitor.sweep())
    await asyncio.sleep(0)
    sweeping.cancel()
    await asyncio.wait({sweeping})
    assert sweeping.cancelled()


async def test_nothing_is_pruned_of_a_topic_whose_progress_cannot_be_read() -> None:
    rig = Rig(event_retention_seconds=1.0)
    session = await rig.memory.connect("default")
    await session.events.append([new_event("orders"), new_event("others")])
    progress = as_write(Subscriber("billing", "orders"), Progress(offset=1), None, new_id())
    await session.schedules.write([replace(progress, state=b'{"offset": {"of a later": "version"}}')])
    rig.clock.advance(2)
    janitor = Janitor(session, "ann", rig.settings, rig.notices)
    assert await janitor.prune_events() == 1
    assert [event.topic for event in (await session.events.read(0, 9)).records] == ["orders"]
