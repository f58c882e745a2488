"""The preset `jobs`: how jobs are locked, kept and taken back, on every store."""

import asyncio
import time
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from holdfast import Context, State
from holdfast.engine.janitor import Janitor
from holdfast.engine.keeper import STRIKES
from holdfast.model.errors import StoreUnavailable
from holdfast.model.outcome import Stop
from holdfast.model.records import Extension
from holdfast.model.timing import SECOND
from tests.acceptance.jobs_profile import (
    PATIENCE,
    STORES,
    Place,
    claim_and_crash,
    claim_and_crash_soon,
    for_ever,
    outcomes,
    place_on,
    record_of,
    since_1970,
    started,
    worker_on,
)
from tests.chaos.waiting import until_async
from tests.engine.faulty import Faults, FaultyStore
from tests.engine.rig import Seen

pytestmark = pytest.mark.timeout(900)

CRASHES = 12  # many more than the losses that other presets allow


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return asyncio.run(place_on(request.param, request, tmp_path))


async def test_of_many_workers_each_job_has_one(place: Place) -> None:
    app = place.app(leader_candidate=False)
    runs: list[tuple[str, str | None]] = []
    all_at_once = asyncio.Event()

    @app.task
    async def work(ctx: Context) -> None:
        runs.append((ctx.job.id, ctx.job.worker))
        if len({worker for _, worker in runs}) == 4:
            all_at_once.set()
        await all_at_once.wait()

    async with app:
        jobs = await app.enqueue_many([work.call() for _ in range(8)])
        workers = [app.worker(concurrency=1) for _ in range(4)]
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*(each.serve(until_idle=True, ready=None) for each in workers))
        told = [(job.id, attempt.worker) for job in jobs for attempt in await app.history(job.id)]
    assert sorted(job for job, _ in runs) == sorted(job.id for job in jobs)
    assert sorted(told) == sorted(runs)


async def test_a_claim_locks_for_two_minutes_and_a_heartbeat_locks_for_two_minutes_anew(place: Place) -> None:
    app = place.app(leader_candidate=False)
    entered, gate = asyncio.Event(), asyncio.Event()
    contexts: list[Context] = []

    @app.task
    async def work(ctx: Context) -> None:
        contexts.append(ctx)
        entered.set()
        await gate.wait()

    seen = Seen(app.notices, PATIENCE)
    async with app, app.worker() as worker:
        job = await work.enqueue()
        await entered.wait()
        claimed = await record_of(app, job)
        assert (claimed.worker, claimed.due) == (worker.id, claimed.created)
        assert claimed.lease_until == claimed.token + 120 * SECOND, "the first token is the time of the claim"
        contexts[0].progress(0.5)  # asks for a heartbeat now, and not only in thirty seconds
        await seen.wait("heartbeat", held=1)
        beaten = await record_of(app, job)
        assert beaten.lease_until is not None
        assert claimed.lease_until is not None
        assert 0 < beaten.lease_until - claimed.lease_until < 10 * SECOND
        assert beaten.token == claimed.token
        gate.set()
        await job.result(timeout=PATIENCE)


async def test_a_job_that_runs_for_longer_than_its_lock_keeps_it_by_a_heartbeat_each_quarter(
    place: Place,
) -> None:
    app = place.quick_app()
    lease = app.settings.lease_seconds
    faults = Faults()
    sent: list[float] = []

    def note(extensions: list[Extension]) -> bool:
        if extensions:
            sent.append(time.monotonic())
        return False

    faults.plan("extend", session="heartbeat", when=note)

    @app.task
    async def work() -> None:
        await asyncio.sleep(1.4 * lease)

    seen = Seen(app.notices, PATIENCE)
    async with app, worker_on(FaultyStore(app.store, faults), app):
        job = await work.enqueue()
        await seen.wait("claimed", job=job.id)
        async with app.worker():
            await job.result(timeout=PATIENCE)
        assert await outcomes(app, job) == ["success"], "no other worker got it"
    gaps = [later - earlier for earlier, later in pairwise(sent)]
    assert 3 <= len(gaps) <= 6
    assert all(gap > 0.9 * lease / 4 for gap in gaps[1:]), "the first beat may be one of the worker's own"
    assert median(gaps) < 1.5 * lease / 4, "one may be late on a busy machine"


async def test_at_the_third_failed_heartbeat_in_a_row_it_is_stopped_and_given_to_another_worker(
    place: Place,
) -> None:
    app = place.quick_app()
    faults = Faults()
    stopped: list[bool] = []

    @app.task
    async def work(ctx: Context) -> str:
        if ctx.job.worker != cut_off.id:
            return "done"
        faults.plan("extend", session="heartbeat", before=StoreUnavailable("gone"), times=float("inf"))
        try:
            await for_ever()
        finally:
            stopped.append(ctx.cancelled)
            cut_off.stop()  # so that it does not look for work again, and another worker must
        return "never"

    seen = Seen(app.notices, PATIENCE)
    async with app:
        cut_off = worker_on(FaultyStore(app.store, faults), app)
        job = await work.enqueue()
        before = await record_of(app, job)
        async with cut_off:
            await seen.wait("claimed", job=job.id)
            async with app.worker() as other:
                assert await job.result(timeout=PATIENCE) == "done"
        first, second = await app.history(job.id)
        after = await record_of(app, job)
    lost = seen.of("lease_lost")
    assert [notice.facts["why"] for notice in lost] == [Stop.ABANDONED]
    assert len(seen.of("heartbeat_failed", worker=cut_off.id)) == STRIKES
    assert stopped == [True]
    assert (first.worker, first.outcome, first.reason) == (cut_off.id, "released", Stop.ABANDONED.value)
    assert (second.worker, second.outcome) == (other.id, "success")
    assert first.finished - started(first.started) < timedelta(seconds=app.settings.lease_seconds), "in time"
    assert (after.due, after.failures, after.lost) == (before.due, 0, 0)


async def test_two_failed_heartbeats_in_a_row_end_nothing_however_often(place: Place) -> None:
    app = place.quick_app()
    faults = Faults()
    gate = asyncio.Event()
    entered = asyncio.Event()

    @app.task
    async def work() -> None:
        entered.set()
        await gate.wait()

    beats = 0

    def is_to_fail(_: object) -> bool:
        """Two of three."""
        nonlocal beats
        beats += 1
        return beats % 3 != 0

    seen = Seen(app.notices, PATIENCE)
    async with app:
        worker = worker_on(FaultyStore(app.store, faults), app)
        job = await work.enqueue()
        async with worker:
            await entered.wait()
            faults.plan(
                "extend",
                session="heartbeat",
                before=StoreUnavailable("gone"),
                times=float("inf"),
                when=is_to_fail,
            )
            await seen.wait("heartbeat_failed", count=4)
            await seen.wait("heartbeat", held=1, count=2)
            gate.set()
            await job.result(timeout=PATIENCE)
        assert await outcomes(app, job) == ["success"]
    assert not seen.of("lease_lost")


async def test_the_job_of_a_crashed_worker_is_taken_back_when_its_lock_is_stale_and_not_before(
    place: Place,
) -> None:
    app = place.quick_app()

    @app.task
    async def work() -> None:
        """Done by whoever is left."""

    async with app:
        job = await work.enqueue()
        crashed = await claim_and_crash(app, "crashed", app.settings.timing.lease)
        async with app.worker() as other:
            await job.result(timeout=PATIENCE)
        first, second = await app.history(job.id)
        after = await record_of(app, job)
    assert (first.worker, first.outcome, first.reason) == ("crashed", "lost", "worker lost")
    assert (second.worker, second.outcome) == (other.id, "success")
    lease = timedelta(seconds=app.settings.lease_seconds)
    claimed = timedelta(microseconds=crashed.token)
    assert lease <= since_1970(first.finished) - claimed < lease + timedelta(seconds=2)
    assert after.due == crashed.due


async def test_a_job_whose_workers_crash_again_and_again_is_never_given_up(place: Place) -> None:
    app = place.quick_app()

    @app.task
    async def work() -> None:
        """Never gets that far."""

    async with app:
        job = await work.enqueue()
        janitor = Janitor(app.client.session, "janitor", app.settings, app.notices)
        crashes = 0
        while crashes < CRASHES:
            crashes += await claim_and_crash_soon(app, f"crashed-{crashes}", SECOND // 4)
            await until_async(janitor.reclaim, "the lock is stale", within=PATIENCE)
        after = await record_of(app, job)
    assert (after.state, after.lost) == (State.SCHEDULED, CRASHES)
