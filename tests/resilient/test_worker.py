"""A worker on a resilient store: short faults pass unnoticed, long ones are waited out."""

import asyncio
from itertools import islice

from holdfast.engine.outage import pauses
from holdfast.model.lifecycle import State
from holdfast.stores.resilient import Breaker, ResilientStore
from tests.engine.rig import Gate, Rig
from tests.resilient.rig import DOWN, LOST


def resilient(rig: Rig, breaker: Breaker) -> ResilientStore:
    """The rig's store, wrapped, and impatient so that the test need not wait."""
    rig.store = store = ResilientStore(rig.store, retry_seconds=0.5, breaker=breaker)  # type: ignore[assignment]
    return store


async def test_a_worker_does_not_notice_short_faults() -> None:
    rig = Rig()
    resilient(rig, Breaker())
    task = rig.task(lambda: None, name="work")
    jobs = [await rig.add(task) for _ in range(5)]
    rig.faults.plan("register", before=DOWN, times=2)
    rig.faults.plan("tick", before=DOWN, times=2)
    rig.faults.plan("tick", after=LOST, times=2)
    await rig.drain()
    assert [await rig.outcomes(each) for each in jobs] == [["success"]] * 5
    assert rig.seen.of("tick_failed") == []


async def test_a_worker_keeps_its_job_through_faults_of_the_heartbeat() -> None:
    rig = Rig(lease_seconds=10, heartbeat_seconds=0.1)
    resilient(rig, Breaker())
    gate = Gate()
    job = await rig.add(rig.task(gate.pass_async, name="wait"))
    async with rig.serving():
        await gate.wait_entered()
        rig.faults.plan("extend", before=DOWN, times=3)
        lost = rig.faults.plan("extend", after=LOST, times=2)
        await asyncio.to_thread(lost.reached.wait)
        await rig.seen.wait("heartbeat", len(rig.seen.of("heartbeat")) + 2)
        assert rig.seen.of("heartbeat_failed") == []
        gate.open()
        await rig.seen.wait("settled", job=job)
    assert await rig.outcomes(job) == ["success"]


async def test_a_worker_waits_out_a_long_outage_and_goes_on_unaided() -> None:
    rig = Rig()
    breaker = Breaker(failures=3, outage_seconds=0.05, reset_seconds=0.05)
    resilient(rig, breaker)
    task = rig.task(lambda: None, name="work")
    async with rig.serving():
        rig.faults.down = DOWN
        await rig.seen.wait("tick_failed")
        assert breaker.is_open
        rig.faults.down = None
        job = await rig.add(task)
        await rig.seen.wait("settled", job=job)
        assert not breaker.is_failing
    assert await rig.state(job) is State.SUCCESS


def test_a_worker_looks_again_within_a_second_however_long_the_outage() -> None:
    later = list(islice(pauses(), 20, 60))
    assert 0.4 < min(later) <= max(later) <= 1
