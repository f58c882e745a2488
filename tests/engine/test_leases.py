"""Leases are kept while code runs, given up in time, and never trusted too long."""

import asyncio
from time import monotonic

import pytest

from holdfast.engine import surroundings
from holdfast.engine.context import Context
from holdfast.engine.hold import Hold, Terms
from holdfast.engine.keeper import Keeper
from holdfast.model.errors import StoreUnavailable
from holdfast.model.lifecycle import State
from holdfast.model.outcome import Stop
from holdfast.model.retry import Never
from holdfast.model.task import RunIn
from holdfast.model.timing import SECOND
from tests.engine.rig import Gate, Rig


async def for_ever() -> None:
    await asyncio.get_running_loop().create_future()


async def test_a_handler_that_blocks_the_loop_for_three_leases_keeps_its_lease_and_runs_once() -> None:
    rig = Rig(lease_seconds=60, heartbeat_seconds=0.05, reclaim_seconds=0.05)

    rig.hurry(20)

    async def blocks() -> None:
        rig.seen.wait_blocking("heartbeat", count=10, held=1)

    job = await rig.add(rig.task(blocks))
    assert await rig.drain() == 0
    record = await rig.job(job)
    assert (record.state, record.run, record.lost) == (State.SUCCESS, 1, 0)
    assert not rig.seen.of("reclaimed")


async def test_a_job_with_a_shorter_lease_than_the_workers_is_kept_as_well() -> None:
    rig = Rig(lease_seconds=60, heartbeat_seconds=0.5, reclaim_seconds=0.05)
    gate = Gate()
    job = await rig.add(rig.task(gate.pass_async), lease=6)
    async with rig.serving():
        await gate.wait_entered()
        rig.hurry(2)
        await rig.seen.wait("heartbeat", count=10, held=1)
        gate.open()
        await rig.seen.wait("settled", job=job)
    assert await rig.outcomes(job) == ["success"]


@pytest.mark.parametrize("run_in", ["async", "thread"])
async def test_at_the_third_failed_heartbeat_the_attempt_is_abandoned_and_released(run_in: RunIn) -> None:
    rig = Rig(lease_seconds=60, heartbeat_seconds=0.1)
    gate = Gate()
    told: list[bool] = []

    async def waits(ctx: Context) -> None:
        gate.entered.release()
        try:
            await for_ever()
        finally:
            told.append(ctx.cancelled)

    def waits_blocking(ctx: Context) -> str:
        gate.pass_blocking()
        told.append(ctx.cancelled)
        return "too late to count"

    job = await rig.add(rig.task(waits if run_in == "async" else waits_blocking))
    async with rig.serving():
        await gate.wait_entered()
        await rig.seen.wait("heartbeat", held=1)
        begun = surroundings.now()
        rig.faults.plan("extend", before=StoreUnavailable("gone"), times=float("inf"))
        lost = await rig.seen.wait("lease_lost", job=job)
        assert lost.facts["why"] is Stop.ABANDONED
        until_lost = [notice.kind for notice in rig.seen.all[: rig.seen.all.index(lost)]]
        assert until_lost.count("heartbeat_failed") == 3
        assert surroundings.now() - begun < 30, "told before the lease can be given to another"
        gate.open()
        settled = await rig.seen.wait("settled", job=job)
        assert told[0]
        move = settled.facts["move"]
        assert move.path[-1] is State.SCHEDULED, "whatever it came back with"
        assert (move.delay, move.failures, move.lost) == (None, 0, 0)
        assert (await rig.outcomes(job))[0] == "released"


async def test_strikes_are_counted_at_the_pace_of_each_lease() -> None:
    rig = Rig(lease_seconds=100)
    told: list[tuple[str, Stop]] = []
    task = rig.task(for_ever)
    jobs = [await rig.add(task) for _ in range(2)]
    timing = rig.settings.timing
    long = Hold(await rig.job(jobs[0]), task, Terms.of(timing), surroundings.now())
    short = Hold(await rig.job(jobs[1]), task, Terms.of(timing, 40 * SECOND), surroundings.now())
    session = await rig.store.connect("default")
    keeper = Keeper(
        session,
        rig.settings,
        "worker",
        rig.notices,
        lambda: [long, short],
        lambda hold, stop: told.append((hold.record.id, stop)),
    )
    rig.faults.down = StoreUnavailable("gone")
    for _ in range(5):
        await keeper.beat()
    assert (long.missed, short.missed) == (0, 0), "beats that come early only carry progress"
    assert keeper.next_look() == pytest.approx(short.claimed + 10)
    for _ in range(3):
        short.beat_due = surroundings.now()
        await keeper.beat()
    assert told == [(jobs[1], Stop.ABANDONED)]
    assert long.missed == 0
    assert keeper.next_look() == pytest.approx(long.claimed + 25)
    long.trust_until = surroundings.now()
    keeper.give_up_untrusted()
    assert told[1:] == [(jobs[0], Stop.LEASE_LOST)]


async def test_terms_of_a_short_lease_keep_the_proportions_of_the_workers() -> None:
    timing = Rig(lease_seconds=120, heartbeat_seconds=36, call_timeout_seconds=6).settings.timing
    own, short, long = Terms.of(timing), Terms.of(timing, 12 * SECOND), Terms.of(timing, 1200 * SECOND)
    assert (own.beat, own.patience, own.trust) == (36, 6, 119)
    assert (short.beat, short.patience, short.trust) == pytest.approx((3.6, 0.6, 11.9))
    assert (long.beat, long.patience, long.trust) == (36, 6, 1199)
    for terms in (own, short, long):
        assert 3 * terms.beat + terms.patience < terms.trust


async def test_a_beat_that_hangs_or_raises_anything_is_a_failed_one() -> None:
    rig = Rig(lease_seconds=60, heartbeat_seconds=0.1, call_timeout_seconds=0.1)
    job = await rig.add(rig.task(for_ever))
    rig.faults.plan("extend", hangs=True)
    rig.faults.plan("extend", before=KeyError("a bug"))
    async with rig.serving() as worker:
        await rig.seen.wait("heartbeat_failed", count=2)
        await rig.seen.wait("heartbeat", held=1)
        worker.stop(0)
    assert await rig.outcomes(job) == ["released"]


async def test_a_lease_is_extended_though_the_registration_cannot_be() -> None:
    rig = Rig(lease_seconds=60, heartbeat_seconds=0.1)
    await rig.add(rig.task(for_ever))
    rig.faults.plan("beat", before=StoreUnavailable("gone"), times=float("inf"))
    async with rig.serving() as worker:
        await rig.seen.wait("heartbeat", count=2, held=1)
        assert not rig.seen.of("heartbeat_failed")
        worker.stop(0)


async def test_without_its_heartbeat_a_worker_ends() -> None:
    rig = Rig(lease_seconds=60, heartbeat_seconds=0.1)
    job = await rig.add(rig.task(for_ever))
    running = asyncio.create_task(rig.worker().run())
    await rig.seen.wait("claimed", job=job)
    rig.faults.plan("extend", before=SystemExit("out of memory"))
    assert await running == 1
    assert await rig.outcomes(job) == ["released"]


async def test_an_attempt_that_has_ended_keeps_its_lease_until_the_store_has_heard_of_it() -> None:
    rig = Rig(lease_seconds=60, heartbeat_seconds=0.1)
    heard = rig.faults.plan(
        "tick", before=StoreUnavailable("busy"), times=float("inf"), when=lambda tick: bool(tick.moves)
    )

    async def good() -> None: ...

    job = await rig.add(rig.task(good))
    async with rig.serving():
        await rig.seen.wait("tick_failed")
        rig.hurry(20)
        await rig.seen.wait("heartbeat", count=10, held=1)
        assert not await (await rig.memory.connect("default")).jobs.expired(10)
        heard.times = 0
        await rig.seen.wait("settled", job=job)
    assert await rig.outcomes(job) == ["success"]


async def test_a_superseded_attempt_changes_nothing_and_does_not_meet_its_successor() -> None:
    rig = Rig(lease_seconds=60, heartbeat_seconds=0.1, prefetch_seconds=0.1, concurrency=3)
    gate = Gate()
    runs: list[int] = []

    def slow(ctx: Context) -> int:
        runs.append(ctx.run)
        if ctx.run == 1:
            gate.pass_blocking()
        return ctx.run

    job = await rig.add(rig.task(slow))
    async with rig.serving():
        await gate.wait_entered()
        rig.clock.advance(61)
        assert await rig.reclaim() == 1
        await rig.seen.wait("lease_lost", job=job)
        await rig.seen.wait("settled", job=job)
        assert runs == [1], "the second attempt waited for the first, and went back"
        assert (await rig.history(job))[-1].reason == "waited too long for a slot"
        gate.open()
        await _until_state(rig, job, State.SUCCESS)
    assert (await rig.job(job)).result != b"1"
    assert len(runs) == 2
    outcomes = await rig.outcomes(job)
    assert outcomes[0] in {"lost", "superseded"}
    assert outcomes.count("success") == 1


async def _until_state(rig: Rig, job: str, state: State) -> None:
    count = 0
    while await rig.state(job) is not state:
        count += 1
        await rig.seen.wait("settled", count=count, job=job)


async def test_a_worker_that_the_store_took_for_dead_makes_itself_known_again() -> None:
    rig = Rig()

    async def good() -> None: ...

    task = rig.task(good)
    async with rig.serving():
        await rig.seen.wait("worker_started")
        rig.clock.advance(1000)
        job = await rig.add(task)
        await rig.seen.wait("settled", job=job)
    assert await rig.state(job) is State.SUCCESS


async def test_until_idle_is_not_over_while_the_worker_cannot_register() -> None:
    rig = Rig()

    async def good() -> None: ...

    job = await rig.add(rig.task(good))
    rig.faults.plan("register", after=None)
    for error in (StoreUnavailable("gone"), KeyError("a bug"), None):
        rig.faults.plan("register", before=error, hangs=error is None)
    expire = rig.faults.plan("connect", session="heartbeat")

    async def forget() -> None:
        await asyncio.to_thread(expire.reached.wait)
        rig.clock.advance(1000)

    forgetting = asyncio.create_task(forget())
    rig.settings = type(rig.settings)(lease_seconds=1, poll_seconds=0.05, kill_seconds=0.1)
    assert await rig.worker().run(until_idle=True) == 0
    await forgetting
    assert await rig.state(job) is State.SUCCESS


async def test_a_store_that_forgets_the_worker_at_once_is_not_asked_all_the_time() -> None:
    rig = Rig(poll_seconds=0.2)
    asked: list[float] = []
    enough = asyncio.Event()

    def forget(_: object) -> bool:
        rig.memory._shelves["default"].workers.clear()
        asked.append(monotonic())
        if len(asked) == 5:
            enough.set()
        return False

    rig.faults.plan("tick", when=forget)
    async with rig.serving():
        await enough.wait()
    assert asked[4] - asked[0] >= 0.35, "at most two at each poll"


async def test_an_attempt_that_outstays_its_timeout_loses_its_lease() -> None:
    rig = Rig(lease_seconds=1, concurrency=2)
    gate = Gate()
    job = await rig.add(rig.task(gate.pass_blocking, timeout=0.2, retry=Never()))
    async with rig.serving():
        await rig.seen.wait("stuck", job=job)
        await rig.seen.wait("heartbeat", held=0)
        rig.clock.advance(2)
        assert await rig.reclaim() == 1
        gate.open()
