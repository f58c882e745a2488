"""Leases, locks and the leader are counted, with those that were lost."""

import asyncio
from datetime import UTC, datetime

import pytest

from holdfast import Context, Event, Holdfast, LockLost, at, every
from holdfast.engine.janitor import Janitor
from holdfast.model.errors import StoreUnavailable
from holdfast.model.outcome import Stop
from holdfast.model.records import Verdict
from holdfast.telemetry.metrics import Metrics
from tests.engine.rig import Gate, Rig
from tests.engine.test_janitor import vanish
from tests.telemetry.samples import Silent, rigged, value

PATIENCE = 10
START = datetime(2026, 1, 1, tzinfo=UTC)


async def test_an_expired_lease_is_recovered_by_one_and_a_conflict_for_the_other() -> None:
    rig = Rig(lost_limit=1)
    metrics = rigged(rig)
    await vanish(rig, 2, started=True)
    session = await rig.memory.connect("default")
    second = await rig.memory.connect("default")
    expired = await second.jobs.expired(10)
    assert await Janitor(session, "first", rig.settings, rig.notices).reclaim() == 2

    async def as_it_was(limit: int) -> object:
        return expired

    second.jobs.expired = as_it_was  # type: ignore[method-assign, assignment]
    assert await Janitor(second, "second", rig.settings, rig.notices).reclaim() == 0
    assert value(metrics, "holdfast_leases_recovered_total{task=good}") == 2
    assert value(metrics, "holdfast_dead_lettered_total{task=good}") == 2
    assert value(metrics, "holdfast_claim_conflicts_total{what=reclaim}") == 2


async def test_a_lost_lease_and_the_refused_report_are_counted() -> None:
    rig = Rig(lease_seconds=60, heartbeat_seconds=0.05)
    metrics = rigged(rig)
    gate = Gate()

    def slow(ctx: Context) -> None:
        if ctx.run == 1:
            gate.pass_blocking()

    job = await rig.add(rig.task(slow))
    async with rig.serving():
        await gate.wait_entered()
        rig.clock.advance(61)
        await rig.seen.wait("lease_lost", job=job)
        assert await rig.reclaim() == 1
        gate.open()
        await rig.seen.wait("settled", job=job, verdict=Verdict.REFUSED)
    assert value(metrics, "holdfast_leases_lost_total{why=lease_lost}") == 1
    assert value(metrics, "holdfast_attempts_total{task=slow,outcome=refused}") == 1
    assert value(metrics, "holdfast_claim_conflicts_total{what=report}") == 1


async def test_a_worker_that_cannot_reach_its_store_counts_every_try() -> None:
    rig = Rig()
    metrics = rigged(rig)
    rig.faults.down = StoreUnavailable("gone")
    worker = rig.worker()
    running = asyncio.create_task(worker.run())
    await rig.seen.wait("start_failed", 2)
    assert value(metrics, "holdfast_workers") == 0
    rig.faults.down = None
    await rig.seen.wait("worker_started")
    assert value(metrics, "holdfast_workers") == 1
    worker.stop()
    await running
    assert value(metrics, "holdfast_workers") == 0
    assert value(metrics, "holdfast_store_failures_total{call=start}") == len(rig.seen.of("start_failed"))


async def test_locks_are_counted_with_the_time_they_were_waited_for() -> None:
    app = Holdfast("memory://")
    metrics = Metrics(app)
    async with app.testing() as testing:
        async with app.lock("books"):
            assert await app.try_lock("books") is None
        async with app.lock("holdfast.leader"):
            assert await app.try_lock("holdfast.leader") is None
        grant = await app.try_lock("lost", ttl=0.3)
        assert grant is not None
        lost = asyncio.create_task(app.notices.wait_for("lock_lost"))
        await asyncio.sleep(0)
        testing.advance(1)
        async with asyncio.timeout(PATIENCE):
            await lost
        with pytest.raises(LockLost):
            grant.check()
    assert value(metrics, "holdfast_lock_grants_total") == 2
    assert value(metrics, "holdfast_lock_timeouts_total") == 1
    assert value(metrics, "holdfast_lock_losses_total") == 1
    assert value(metrics, "holdfast_lock_wait_seconds_count") == 3
    assert value(metrics, "holdfast_lock_held_seconds_count") == 1


async def test_the_leader_and_its_firings_are_counted() -> None:
    app = Holdfast("memory://")

    @app.task
    async def report() -> None: ...

    metrics = Metrics(app)
    fired = asyncio.create_task(app.notices.wait_for("schedule_fired"))
    assert value(metrics, "holdfast_leading") == 0
    async with app, app.worker():
        await app.schedules.put("once", at(START), report.call())
        async with asyncio.timeout(PATIENCE):
            await fired
        assert value(metrics, "holdfast_leading") == 1
    assert value(metrics, "holdfast_leading") == 0, "it resigned"
    assert value(metrics, "holdfast_leader_terms_total") == 1
    assert value(metrics, "holdfast_leader_terms_lost_total") == 0
    assert value(metrics, "holdfast_schedules_fired_total") == 1
    assert value(metrics, "holdfast_schedule_lateness_seconds_count") == 1
    assert value(metrics, "holdfast_lock_grants_total") == 0, "the leader's lock is ours"


async def test_a_firing_counts_whether_it_makes_a_job_or_an_event() -> None:
    app = Holdfast("memory://")
    metrics = Metrics(app)
    async with app.testing(START) as testing:
        closing = Event(topic="books", type="closing", data=None)
        await app.schedules.put("closing", every(hours=1), closing, misfire="all")
        testing.advance(3 * 3600)
        testing.fire_due()
    assert value(metrics, "holdfast_schedules_fired_total") == 3
    assert value(metrics, "holdfast_events_appended_total{topic=books}") == 3


async def test_a_leader_that_lost_its_lease_leads_no_more() -> None:
    app = Silent()
    metrics = Metrics(app)
    app.notices.tell("leader_elected", worker="a", term=7)
    app.notices.tell("lock_released", lock="holdfast.leader", token=6, held=1.0)
    assert value(metrics, "holdfast_leading") == 1, "that was an earlier term"
    app.notices.tell("leader_lost", worker="a", error="lost")
    assert value(metrics, "holdfast_leading") == 0
    assert value(metrics, "holdfast_leader_terms_lost_total") == 1


def test_stuck_attempts_and_abandoned_ones_are_counted() -> None:
    rig = Rig()
    metrics = rigged(rig)
    record = asyncio.run(_claimed(rig))
    rig.notices.tell("stuck", record=record)
    rig.notices.tell("lease_lost", record=record, why=Stop.ABANDONED)
    assert value(metrics, "holdfast_attempts_stuck_total{task=good}") == 1
    assert value(metrics, "holdfast_leases_lost_total{why=abandoned}") == 1


async def _claimed(rig: Rig) -> object:
    await vanish(rig, 1)
    return (await (await rig.memory.connect("default")).jobs.expired(1))[0]
