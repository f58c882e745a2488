"""The preset `jobs`: what follows a failure, when the next run is, when workers look; on every store."""

import asyncio
import time
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast import Context, State, every
from tests.acceptance.jobs_profile import (
    PATIENCE,
    STORES,
    Deaf,
    Place,
    for_ever,
    has_due,
    outcomes,
    place_on,
    record_of,
    started,
    worker_on,
)
from tests.chaos.waiting import until, until_async
from tests.engine.rig import Seen

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return asyncio.run(place_on(request.param, request, tmp_path))


async def test_a_failure_releases_at_once_and_another_worker_runs_it_at_its_next_look(place: Place) -> None:
    app = place.quick_app()
    failed_at = 0.0

    @app.task
    async def work(ctx: Context) -> float:
        nonlocal failed_at
        if ctx.job.worker == unlucky.id:
            unlucky.stop()  # so that it does not look for work again, and another worker must
            failed_at = time.monotonic()
            raise OSError("disk full")
        return time.monotonic() - failed_at

    seen = Seen(app.notices, PATIENCE)
    async with app:
        unlucky, deaf = app.worker(), Deaf(app.store)
        async with worker_on(deaf, app) as other:
            await until(lambda: deaf.looks, "it has looked, and found nothing", within=PATIENCE)
            job = await work.enqueue()
            before = await record_of(app, job)
            async with unlucky:
                await seen.wait("settled", job=job.id)
            between = await record_of(app, job)
            waited = await job.result(timeout=PATIENCE)
        first, second = await app.history(job.id)
        after = await record_of(app, job)
    assert (between.state, between.worker, between.lease_until) == (State.SCHEDULED, None, None)
    assert (first.worker, first.outcome, first.reason) == (unlucky.id, "retry", "OSError: disk full")
    assert "Traceback" in str(first.error)
    assert (second.worker, second.outcome) == (other.id, "success")
    assert waited < app.settings.poll_seconds + 1
    assert [record.due for record in (between, after)] == [before.due] * 2


async def test_however_often_it_fails_no_counter_ends_it(place: Place) -> None:
    app = place.app(leader_candidate=False)

    @app.task
    async def work(ctx: Context) -> int:
        if ctx.run <= 50:
            raise OSError("disk full")
        return ctx.run

    async with app:
        job = await work.enqueue()
        before = await record_of(app, job)
        async with app.worker():
            assert await job.result(timeout=PATIENCE) == 51
        after = await record_of(app, job)
        assert await outcomes(app, job) == ["retry"] * 50 + ["success"]
        assert (after.failures, after.due) == (0, before.due)
        assert not await app.find(state="dlq")


async def test_the_next_run_is_ten_minutes_after_the_start_of_the_one_that_succeeded(place: Place) -> None:
    app = place.app()

    @app.schedule()
    @app.task
    async def work(ctx: Context) -> None:
        if ctx.run == 1:
            raise OSError("disk full")
        await asyncio.sleep(1)

    async with app, app.worker():
        job = await app.get(await app.schedules.run("work"))
        assert job is not None
        await job.result(timeout=PATIENCE)
        await app.schedules.put("other", every(hours=1), work.call())  # tells the leader to look at once
        known = await until_async(
            lambda: app.schedules.get("work"), "the run has ended", has_due, within=PATIENCE
        )
        assert known is not None
        failed, done = await app.history(job.id)
    assert failed.outcome == "retry"
    assert done.finished - started(done.started) >= timedelta(seconds=1)
    assert known.next_due == started(done.started) + timedelta(minutes=10)


async def test_runs_come_an_interval_after_the_start_of_the_last_however_long_they_take(place: Place) -> None:
    app = place.app(interval_seconds=1, poll_seconds=0.1)
    ran: list[Context] = []
    enough = asyncio.Event()

    @app.schedule()
    @app.task
    async def work(ctx: Context) -> None:
        ran.append(ctx)
        await asyncio.sleep(0.5)
        if len(ran) == 3:
            enough.set()

    async with app:
        async with app.worker(), asyncio.timeout(PATIENCE):
            await enough.wait()
        found = [await app.get(ctx.job.id) for ctx in ran]
    starts = [started(job.started) for job in found if job is not None]
    dues = [ctx.firing.due for ctx in ran if ctx.firing is not None]
    assert dues[1:3] == [start + timedelta(seconds=1) for start in starts[:2]]
    assert all(start >= due for start, due in zip(starts, dues, strict=True))


async def test_an_idle_worker_looks_once_in_each_poll_and_finds_what_has_come_meanwhile(place: Place) -> None:
    app = place.quick_app()
    poll = 60 / place.faster
    entered: list[float] = []

    @app.task
    async def work() -> None:
        entered.append(time.monotonic())

    async with app:
        deaf = Deaf(app.store)
        async with worker_on(deaf, app):
            await until(
                lambda: deaf.looks, "it has looked twice", lambda looks: len(looks) == 2, within=PATIENCE
            )
            job = await work.enqueue()
            await job.result(timeout=PATIENCE)
    first, second, third, *_ = deaf.looks
    assert poll * 0.95 < second - first < poll + 1
    assert poll * 0.95 < third - second < poll + 1
    assert third <= entered[0] < third + 1


async def test_at_a_shutdown_what_runs_is_stopped_and_released_for_another_worker(place: Place) -> None:
    app = place.quick_app()
    entered = asyncio.Event()
    stopped: list[bool] = []

    @app.task
    async def work(ctx: Context) -> str:
        if ctx.job.worker != leaving.id:
            return "done"
        entered.set()
        try:
            await for_ever()
        finally:
            stopped.append(ctx.cancelled)
        return "never"

    async with app:
        leaving = app.worker()
        job = await work.enqueue()
        before = await record_of(app, job)
        async with leaving:
            await entered.wait()
            leaving.stop(grace=0)
        between = await record_of(app, job)
        async with app.worker():
            assert await job.result(timeout=PATIENCE) == "done"
        assert await outcomes(app, job) == ["released", "success"]
    assert stopped == [True]
    assert (between.state, between.worker, between.due, between.failures) == (
        State.SCHEDULED,
        None,
        before.due,
        0,
    )
