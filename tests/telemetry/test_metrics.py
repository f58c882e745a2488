"""What a real application does is counted, and Prometheus can read it."""

import ast
import asyncio
import threading
from pathlib import Path

import pytest

from holdfast import Context, Fixed, Holdfast
from holdfast.model.errors import StoreUnavailable
from holdfast.model.events import NewEvent
from holdfast.model.lifecycle import SUCCEEDED, Ending
from holdfast.model.overview import Counts, QueueInfo
from holdfast.model.records import Move, Verdict
from holdfast.telemetry.metrics import Metrics
from tests.docs.page import ROOT
from tests.engine.rig import Rig
from tests.engine.test_janitor import vanish
from tests.telemetry.samples import Silent, read, rigged, value

PATIENCE = 10


async def test_a_job_is_counted_from_its_claim_to_its_end() -> None:
    app = Holdfast("memory://")

    @app.task(queue="mail")
    async def greet() -> None: ...

    metrics = Metrics(app)
    async with app.testing() as testing:
        await greet.using(delay=30).enqueue()
        testing.advance(120)
        await testing.drain()
    assert value(metrics, "holdfast_leases_acquired_total{queue=mail}") == 1
    assert value(metrics, "holdfast_attempts_total{task=greet,outcome=success}") == 1
    assert value(metrics, "holdfast_job_run_seconds_count{task=greet}") == 1
    assert value(metrics, "holdfast_job_lateness_seconds_sum{queue=mail}") == 90
    assert value(metrics, "holdfast_job_lateness_seconds_bucket{queue=mail,le=60.0}") == 0
    assert value(metrics, "holdfast_job_lateness_seconds_bucket{queue=mail,le=300.0}") == 1
    assert value(metrics, "holdfast_job_lateness_seconds_bucket{queue=mail,le=+Inf}") == 1


async def test_retries_and_the_dead_letter_queue_are_counted() -> None:
    app = Holdfast("memory://")

    @app.task(retry=Fixed(max_retries=2, wait=10))
    async def broken() -> None:
        raise RuntimeError("broken")

    metrics = Metrics(app)
    async with app.testing() as testing:
        await broken.enqueue()
        for _ in range(3):
            await testing.drain()
            testing.advance(60)
        text = await metrics.collect()
    samples = read(text)
    assert samples["holdfast_attempts_total{task=broken,outcome=retry}"] == 2
    assert samples["holdfast_attempts_total{task=broken,outcome=failed}"] == 1
    assert samples["holdfast_retries_total{task=broken}"] == 2
    assert samples["holdfast_dead_lettered_total{task=broken}"] == 1
    assert samples["holdfast_dlq_size{queue=default}"] == 1
    assert samples["holdfast_job_lateness_seconds_sum{queue=default}"] == pytest.approx(100, abs=0.001)


async def test_the_sizes_of_queues_are_asked_of_the_store() -> None:
    app = Holdfast("memory://")

    @app.task
    async def greet() -> None: ...

    metrics = Metrics(app)
    async with app.testing() as testing:
        for delay in (0, 0, 0, 60, 60):
            await greet.using(delay=delay, queue="mail").enqueue()
        before = read(metrics.render())
        samples = read(await metrics.collect())
        await testing.drain()
        after = read(await metrics.collect())
    assert not any("queue_depth" in name for name in before), "nobody has asked yet"
    assert samples["holdfast_queue_depth{queue=mail}"] == 3
    assert samples["holdfast_queue_scheduled{queue=mail}"] == 2
    assert samples["holdfast_queue_in_progress{queue=mail}"] == 0
    assert samples["holdfast_store_up{}"] == 1
    assert after["holdfast_queue_depth{queue=mail}"] == 0


async def test_the_age_of_a_queue_is_observed_each_time_it_is_asked_for() -> None:
    app = Silent()
    metrics = Metrics(app)
    none = Counts.of(())
    app.found = [QueueInfo("mail", False, none, oldest=7.5), QueueInfo("idle", False, none)]
    await metrics.measure()
    app.found = [QueueInfo("mail", False, none, oldest=0.5)]
    samples = read(await metrics.collect())
    assert samples["holdfast_queue_oldest_seconds{queue=mail}"] == 0.5
    assert "holdfast_queue_oldest_seconds{queue=idle}" not in samples
    assert samples["holdfast_queue_age_seconds_count{queue=mail}"] == 2
    assert samples["holdfast_queue_age_seconds_sum{queue=mail}"] == 8
    assert samples["holdfast_queue_age_seconds_bucket{queue=idle,le=0.001}"] == 1


async def test_the_age_of_a_queue_is_what_its_first_job_has_waited() -> None:
    app = Holdfast("memory://")

    @app.task(queue="mail")
    async def send() -> None: ...

    metrics = Metrics(app)
    async with app.testing() as testing:
        await send.enqueue()
        testing.advance(90)
        samples = read(await metrics.collect())
    assert samples["holdfast_queue_oldest_seconds{queue=mail}"] == 90
    assert samples["holdfast_queue_age_seconds_sum{queue=mail}"] == 90


@pytest.mark.parametrize("error", [StoreUnavailable("gone"), TimeoutError()])
async def test_a_store_that_does_not_answer_leaves_no_old_sizes(error: Exception) -> None:
    app = Silent()
    metrics = Metrics(app)
    assert read(await metrics.collect())["holdfast_store_up{}"] == 1
    app.notices.tell("heartbeat_failed", worker="w", error=error)
    app.error = error
    samples = read(await metrics.collect())
    assert samples["holdfast_store_up{}"] == 0
    assert not any("queue_depth" in name for name in samples)
    assert samples["holdfast_heartbeats_failed_total{}"] == 1, "what was counted here is still told"


async def test_an_attempt_that_commits_its_own_completion_is_counted(tmp_path: Path) -> None:
    app = Holdfast(f"sqlite:///{tmp_path / 'jobs.db'}")

    @app.task
    def ship(ctx: Context) -> None:
        with ctx.sync_transaction() as transaction:
            transaction.complete(None)

    metrics = Metrics(app)
    async with app, app.worker():
        settled = asyncio.create_task(app.notices.wait_for("settled"))
        await ship.enqueue()
        async with asyncio.timeout(PATIENCE):
            assert (await settled).facts["move"] is None
    assert value(metrics, "holdfast_attempts_total{task=ship,outcome=success}") == 1
    assert value(metrics, "holdfast_job_run_seconds_count{task=ship}") == 1


def test_what_consumers_tell_is_counted_by_group_and_topic() -> None:
    app = Silent()
    metrics = Metrics(app)
    who = {"group": "billing", "topic": "orders"}
    app.notices.tell("events_appended", topic="orders", count=5)
    app.notices.tell("event_consumed", **who, count=3, seconds=0.2, lag=9)
    app.notices.tell("event_consumed", **who, count=2, seconds=0.1, lag=4)
    app.notices.tell("event_failed", **who, event="e", failures=1)
    app.notices.tell("event_parked", **who, aggregate="order-1")
    app.notices.tell("events_relayed", topic="orders", count=2)
    assert value(metrics, "holdfast_events_appended_total{topic=orders}") == 5
    assert value(metrics, "holdfast_events_consumed_total{group=billing,topic=orders}") == 5
    assert value(metrics, "holdfast_event_handling_seconds_count{group=billing}") == 2
    assert value(metrics, "holdfast_events_failed_total{group=billing,topic=orders}") == 1
    assert value(metrics, "holdfast_events_parked_total{group=billing,topic=orders}") == 1
    assert value(metrics, "holdfast_events_relayed_total{topic=orders}") == 2
    assert value(metrics, "holdfast_consumer_lag_events{group=billing,topic=orders}") == 4
    app.notices.tell("consumer_stopped", **who)
    assert "holdfast_consumer_lag_events{" not in metrics.render(), "another may consume by now"


async def test_events_that_travel_with_a_completion_are_counted() -> None:
    rig = Rig()
    metrics = rigged(rig)
    await vanish(rig, 1)
    (record,) = await (await rig.memory.connect("default")).jobs.expired(1)
    events = tuple(NewEvent(id=each, topic="orders", type="paid", data=b"1") for each in ("a", "b"))
    move = Move(job=record.id, token=record.token, path=SUCCEEDED, outcome=Ending.SUCCESS, events=events)
    rig.notices.tell("settled", record=record, move=move, verdict=Verdict.REFUSED)
    assert value(metrics, "holdfast_events_appended_total{topic=orders}") == 0
    rig.notices.tell("settled", record=record, move=move, verdict=Verdict.ACCEPTED)
    assert value(metrics, "holdfast_events_appended_total{topic=orders}") == 2


def test_what_schedules_dropped_and_edits_that_were_refused_are_counted() -> None:
    app = Silent()
    metrics = Metrics(app)
    app.notices.tell("schedule_missed", schedule="s", count=3)
    app.notices.tell("schedule_skipped", schedule="s", count=2)
    app.notices.tell("version_conflict", of="job")
    assert value(metrics, "holdfast_schedules_missed_total") == 3
    assert value(metrics, "holdfast_schedules_skipped_total") == 2
    assert value(metrics, "holdfast_version_conflicts_total{of=job}") == 1


def test_a_notice_from_another_thread_waits_until_the_one_before_is_counted() -> None:
    app = Silent()
    metrics = Metrics(app)
    others: list[threading.Thread] = []

    class Meddled(int):
        """Is added only after another thread had time to count, if it may."""

        def __radd__(self, before: int) -> int:
            others.append(threading.Thread(target=tell, args=(1,)))
            others[0].start()
            others[0].join(0.1)
            return before + int(self)

    def tell(count: int) -> None:
        app.notices.tell("schedule_missed", schedule="s", count=count)

    tell(Meddled(1))
    others[0].join()
    assert value(metrics, "holdfast_schedules_missed_total") == 2


def test_nobody_listens_without_metrics_or_after_they_are_closed() -> None:
    app = Holdfast("memory://")
    assert not app.notices
    metrics = Metrics(app)
    assert app.notices
    app.notices.tell("lock_acquired", lock="a", token=1, waited=0.5)
    metrics.close()
    assert not app.notices
    app.notices.tell("lock_acquired", lock="a", token=2, waited=0.5)
    assert value(metrics, "holdfast_lock_grants_total") == 1


def test_no_notice_is_made_without_asking_whether_somebody_listens() -> None:
    told = 0
    for path in sorted((ROOT / "src/holdfast").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for function in ast.walk(ast.parse(text)) if "notices.tell(" in text else ():
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                body = ast.unparse(function)
                told += (count := body.count("notices.tell("))
                is_asked = "if self._notices" in body or "if self.notices" in body
                assert not count or is_asked, f"{path.name}: {function.name}"
    assert told > 10
