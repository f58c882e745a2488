"""One trace from whoever asked to the last effect, wherever the work went in between."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from opentelemetry import baggage
from opentelemetry import context as contexts
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from holdfast import ConfigurationError, Context, Event, Fixed, Holdfast, KeyConflict, at, every
from holdfast.engine import tracing
from holdfast.engine.ids import new_id
from holdfast.engine.notices import Notices
from holdfast.engine.tracing import made
from holdfast.model.events import EventRecord
from holdfast.model.headers import carried
from holdfast.stores import open_store
from tests.engine.rig import Gate, Rig
from tests.telemetry import process_shop
from tests.telemetry.spans import Spans, attributes, traces

PATIENCE = 20.0


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        found: str = request.getfixturevalue("postgres_database")
        return found
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"


async def migrate(url: str) -> None:
    store = open_store(url)
    if store.migrations is not None:
        await store.migrations.apply()
    await store.close()


def shop(url: str = "memory://", **settings: Any) -> Holdfast:
    return Holdfast(url, leader_candidate=False, poll_seconds=0.05, **settings)


async def drain(app: Holdfast) -> None:
    async with asyncio.timeout(PATIENCE):
        await app.worker().run(until_idle=True)


async def test_one_trace_from_the_request_to_the_consumer_of_an_event(url: str) -> None:
    await migrate(url)
    app = shop(url)
    seen: list[str] = []

    @app.task(queue="orders")
    async def order(ctx: Context, number: int) -> None:
        with spans.web.start_as_current_span("charge"):
            ctx.enqueue(mail.call(number))

    @app.task(queue="mails")
    def mail(ctx: Context, number: int) -> None:
        ctx.emit(Event(topic="mails", type="sent", data=number))

    @app.on("mails", group="statistics")
    async def count(ctx: Context, event: Event[int]) -> None:
        ctx.enqueue(last.call())

    @app.task
    async def last() -> None:
        seen.append("last")

    spans = Spans(app)
    async with app:
        with spans.web.start_as_current_span("POST /orders"):
            job = await order.enqueue(7)
        await drain(app)
        await drain(app)
    assert seen == ["last"]
    assert spans.path(spans.one("run last")) == [
        "POST /orders",
        "enqueue order",
        "run order",
        "charge",
        "enqueue mail",
        "run mail",
        "emit mails",
        "handle mails",
        "enqueue last",
        "run last",
    ]
    assert len(traces(spans.all())) == 1
    run = attributes(spans.one("run order"))
    assert run["messaging.system"] == "holdfast"
    assert run["messaging.operation.name"] == "run"
    assert run["messaging.operation.type"] == "process"
    assert run["messaging.destination.name"] == run["holdfast.queue"] == "orders"
    assert run["messaging.message.id"] == run["holdfast.job.id"] == job.id
    assert (run["holdfast.task"], run["holdfast.run"], run["holdfast.outcome"]) == ("order", 1, "success")
    assert run["holdfast.token"] > 1 << 50
    assert spans.one("run order").kind is SpanKind.CONSUMER
    sent = spans.one("enqueue order")
    assert sent.kind is SpanKind.PRODUCER
    assert attributes(sent)["messaging.operation.type"] == "send"
    assert attributes(sent)["holdfast.job.created"] is True
    made = attributes(spans.one("enqueue mail"))
    assert made["messaging.operation.type"] == "create"
    assert made["messaging.destination.name"] == "mails"
    handled = attributes(spans.one("handle mails"))
    assert handled["messaging.consumer.group.name"] == "statistics"
    assert handled["holdfast.outcome"] == "success"


async def test_every_attempt_is_a_span_of_the_trace_with_what_it_raised(url: str) -> None:
    await migrate(url)
    app = shop(url)

    @app.task(retry=Fixed(max_retries=1, wait=0))
    async def charge(ctx: Context) -> None:
        raise OSError(f"refused {ctx.run}")

    spans = Spans(app)
    async with app:
        with spans.web.start_as_current_span("request"):
            await charge.enqueue()
        await drain(app)
    runs = spans.named("run charge")
    assert [attributes(run)["holdfast.run"] for run in runs] == [1, 2]
    assert [attributes(run)["holdfast.outcome"] for run in runs] == ["retry", "failed"]
    assert len(traces(spans.all())) == 1
    assert all(spans.path(run) == ["request", "enqueue charge", "run charge"] for run in runs)
    assert runs[1].status.status_code is StatusCode.ERROR
    assert runs[1].status.description == "failed: OSError: refused 2"
    assert attributes(runs[1])["error.type"] == "OSError"
    (raised,) = runs[1].events
    told = dict(raised.attributes or {})
    assert (raised.name, told["exception.type"]) == ("exception", "OSError")
    assert told["exception.message"] == "OSError: refused 2"
    assert "Traceback" in str(told["exception.stacktrace"])


async def test_no_span_has_the_password_that_an_exception_had_in_its_words() -> None:
    app = shop()

    @app.task(retry=Fixed(max_retries=0, wait=0))
    async def charge() -> None:
        raise OSError("cannot reach postgresql://me:c4n4ry@host/db")

    spans = Spans(app)
    async with app:
        await charge.enqueue()
        await drain(app)
    sending = spans.tracing.sending([], [])
    sending.failed(OSError("cannot reach postgresql://me:c4n4ry@host/db"))
    run, sent = spans.one("run charge"), spans.one("emit")
    for span in (run, sent):
        assert "postgresql://me:***@host/db" in (span.status.description or "")
        (raised,) = span.events
        told = dict(raised.attributes or {})
        assert "postgresql://me:***@host/db" in str(told["exception.message"])
        assert "postgresql://me:***@host/db" in str(told["exception.stacktrace"])
    assert "postgresql://me:***@host/db" in attributes(run)["holdfast.reason"]
    assert "c4n4ry" not in "".join(span.to_json() for span in spans.all())


async def test_a_take_over_is_a_further_span_and_the_late_one_says_that_it_was_refused() -> None:
    rig = Rig(lease_seconds=60, heartbeat_seconds=0.05)
    spans = Spans(rig)
    gate = Gate()

    def slow(ctx: Context) -> None:
        if ctx.run == 1:
            gate.pass_blocking()

    new = rig.call(rig.task(slow)).to_new_job(new_id())
    with spans.web.start_as_current_span("request"):
        new = made(rig.notices, new)
    await (await rig.memory.connect("default")).jobs.add([new])
    async with rig.serving():
        await gate.wait_entered()
        rig.clock.advance(61)
        await rig.seen.wait("lease_lost", job=new.id)
        assert await rig.reclaim() == 1
        await rig.seen.wait("settled", job=new.id)
        gate.open()
        await rig.seen.wait("settled", 2, job=new.id)
    runs = {attributes(run)["holdfast.run"]: attributes(run) for run in spans.named("run slow")}
    last = max(runs)
    assert {run: told["holdfast.outcome"] for run, told in runs.items()} == {1: "refused", last: "success"}
    assert runs[last]["holdfast.token"] > runs[1]["holdfast.token"]
    assert len(traces(spans.all())) == 1


async def test_an_attempt_that_a_worker_leaves_behind_is_told_too() -> None:
    rig = Rig(grace_seconds=0)
    spans = Spans(rig)
    gate = Gate()
    rig.task(gate.pass_blocking, name="deaf")
    await rig.add(rig.registry.find("deaf"))  # type: ignore[arg-type]
    async with rig.serving():
        await gate.wait_entered()
    assert attributes(spans.one("run deaf"))["holdfast.outcome"] == "untold"
    gate.open()


async def test_all_ways_to_enqueue_carry_the_trace(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    app = shop(f"sqlite:///{path}")

    @app.task
    async def work(way: str) -> None: ...

    spans = Spans(app)
    async with app:
        with spans.web.start_as_current_span("request"):
            await work.enqueue("enqueue")
            await app.enqueue_many([work.call("many"), work.call("too")])
            await app.enqueue_many([work.call("with")], events=[Event(topic="t", type="x", data=1)])
            await asyncio.to_thread(work.enqueue_sync, "sync")
            async with app.batch(work.call("done")) as batch:
                await batch.add(work.call("batch"))
            await app.schedules.put("now", every(hours=1), work.call("run now"))
            await app.schedules.run("now")
            with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                work.enqueue_in_sync(connection, "in")
                app.emit_in_sync(connection, Event(topic="t", type="x", data=2))
                connection.execute("COMMIT")
            await app.emit(Event(topic="t", type="x", data=3))
        await drain(app)
        log = await app.client.session.events.read(0, 10)
    assert len(spans.named("run work")) == 9
    assert len(traces(spans.all())) == 1
    assert all(spans.path(run)[0] == "request" for run in spans.named("run work"))
    sent = [attributes(span) for span in spans.named("enqueue work")]
    assert [each.get("messaging.batch.message_count", 1) for each in sent] == [1, 2, 2, 1, 2, 1, 1]
    assert len({carried(event.headers)["traceparent"] for event in log.records}) == 3


async def test_a_job_joins_a_postgresql_transaction_with_its_trace(postgres_database: str) -> None:
    await migrate(postgres_database)
    app = shop(postgres_database)

    @app.task
    async def work() -> None: ...

    spans = Spans(app)
    connection = await asyncpg.connect(postgres_database)
    async with app:
        async with connection.transaction():
            with spans.web.start_as_current_span("request"):
                await work.enqueue_in(connection)
        await drain(app)
    await connection.close()
    assert spans.path(spans.one("run work")) == ["request", "enqueue work", "run work"]


async def test_each_firing_of_a_schedule_begins_a_trace() -> None:
    app = Holdfast("memory://")

    @app.task
    async def report(ctx: Context) -> None:
        assert ctx.firing is not None

    spans = Spans(app)
    async with app.testing(datetime(2030, 1, 1, tzinfo=UTC)) as testing:
        with spans.web.start_as_current_span("request"):
            await app.schedules.put("hourly", every(hours=1), report.call(), misfire="all", overlap="allow")
            await app.schedules.put(
                "once", at(datetime(2030, 1, 1, 0, 30, tzinfo=UTC)), Event(topic="t", type="x", data=1)
            )
        for _ in range(2):
            testing.advance(3600)
            await testing.drain()
    runs = spans.named("run report")
    assert [spans.path(run) for run in runs] == [["enqueue report", "run report"]] * len(runs)
    assert len(traces(runs)) == len(runs) > 1
    assert attributes(spans.named("enqueue report")[0])["holdfast.schedule"] == "hourly"
    assert spans.one("emit t").parent is None


def shown(span: ReadableSpan) -> list[str]:
    return [f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"]


@pytest.mark.process
async def test_a_handler_in_another_process_goes_on_with_the_trace(tmp_path: Path) -> None:
    process_shop.tracing.close()
    traced = process_shop.app.configured(store=f"sqlite:///{tmp_path}/jobs.db")
    spans = Spans(traced)
    try:
        async with traced:
            with spans.web.start_as_current_span("request"):
                job = await process_shop.order.enqueue()
                other = await process_shop.order_async.enqueue()
            await drain(traced)
            seen = await job.result(timeout=PATIENCE)
            seen_async = await other.result(timeout=PATIENCE)
    finally:
        spans.tracing.close()
    run, run_async = spans.one("run order"), spans.one("run order_async")
    assert seen == shown(run)
    assert seen_async == shown(run_async)
    children = spans.named("run child")
    assert len(children) == 2
    assert traces(spans.all()) == {run.context.trace_id}
    assert {child.parent.span_id for child in children if child.parent} == {
        run.context.span_id,
        run_async.context.span_id,
    }


def test_a_process_without_a_tracer_passes_on_what_it_was_given() -> None:
    app = shop()

    @app.task
    def work() -> None: ...

    new = work.call().to_new_job(new_id())
    assert made(app.notices, new) is new
    assert carried(made(app.notices, new, {"traceparent": "00-1-2-01"}).headers) == {
        "traceparent": "00-1-2-01"
    }


async def test_baggage_is_carried_along() -> None:
    app = shop()
    found: list[object] = []

    @app.task
    async def work() -> None:
        found.append(baggage.get_baggage("tenant"))

    Spans(app)
    async with app:
        token = contexts.attach(baggage.set_baggage("tenant", "acme"))
        await work.enqueue()
        contexts.detach(token)
        await drain(app)
    assert found == ["acme"]


async def test_with_links_an_attempt_begins_a_trace_that_links_to_its_sender() -> None:
    app = shop()

    @app.task
    async def work() -> None: ...

    spans = Spans(app, links=True)
    async with app:
        with spans.web.start_as_current_span("request"):
            await work.enqueue()
        await drain(app)
    run, sent = spans.one("run work"), spans.one("enqueue work")
    assert run.parent is None
    assert [link.context.span_id for link in run.links] == [sent.context.span_id]
    assert run.context.trace_id != sent.context.trace_id


async def test_a_relayed_batch_links_to_all_that_emitted() -> None:
    app = shop()
    relayed: list[EventRecord] = []

    async def relay(events: Any) -> None:
        relayed.extend(events)

    app.relay(["orders"], relay)
    spans = Spans(app)
    async with app:
        for number in range(2):
            with spans.web.start_as_current_span("request"):
                await app.emit(Event(topic="orders", type="made", data=number))
        await drain(app)
    span = spans.one("relay orders")
    assert attributes(span)["messaging.batch.message_count"] == len(relayed) == 2
    assert {link.context.span_id for link in span.links} == {
        each.context.span_id for each in spans.named("emit orders")
    }


async def test_a_consumer_that_fails_is_tried_again_in_the_same_trace() -> None:
    app = shop()
    failures = [OSError("first")]

    @app.on("orders", group="billing", retry=Fixed(max_retries=1, wait=0))
    def bill(event: Event[int]) -> None:
        if failures:
            raise failures.pop()

    spans = Spans(app)
    async with app:
        await app.emit(Event(topic="orders", type="made", data=1))
        await drain(app)
    handled = spans.named("handle orders")
    assert [attributes(span)["holdfast.outcome"] for span in handled] == ["retry", "success"]
    assert handled[0].status.description == "retry: OSError: first"
    assert len(traces(spans.all())) == 1


async def test_a_key_that_is_taken_is_told_with_the_job_that_has_it(url: str) -> None:
    await migrate(url)
    app = shop(url)

    @app.task
    async def work(number: int) -> None: ...

    spans = Spans(app)
    async with app:
        with spans.web.start_as_current_span("first"):
            first = await work.using(key="k").enqueue(1)
        with spans.web.start_as_current_span("second"):
            second = await work.using(key="k").enqueue(1)
        assert first.id == second.id, "another trace is no other work"
        with pytest.raises(KeyConflict):
            await work.using(key="k").enqueue(2)
        again = await work.using(id=first.id, key="k").enqueue(1)
        assert again.id == first.id
    told = [attributes(span) for span in spans.named("enqueue work")]
    assert [each.get("holdfast.job.created") for each in told] == [True, False, None, False]
    assert told[1]["messaging.message.id"] == first.id
    assert told[2]["error.type"] == "KeyConflict"


class Broken:
    """A tracer that can do nothing."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("broken")


async def test_a_broken_tracer_harms_no_job(caplog: pytest.LogCaptureFixture) -> None:
    app = shop()
    seen: list[str] = []

    @app.task
    async def work(ctx: Context) -> None:
        ctx.enqueue(child.call())
        ctx.emit(Event(topic="t", type="x", data=1))

    @app.task
    def child() -> None:
        seen.append("child")

    @app.on("t", group="g")
    def hear(event: Event[int]) -> None:
        seen.append("event")

    app.notices.tracer = Broken()
    async with app:
        await work.enqueue()
        await app.enqueue_many([child.call()])
        await drain(app)
    assert sorted(seen) == ["child", "child", "event"]
    assert "a tracer failed" in caplog.text


def test_an_application_has_one_tracer() -> None:
    app = shop()
    spans = Spans(app)
    with pytest.raises(ConfigurationError, match="traced already"):
        Spans(app)
    spans.tracing.close()
    assert app.notices.tracer is None


async def test_nothing_is_carried_when_nobody_follows() -> None:
    app = shop()

    @app.task
    async def work(ctx: Context) -> None:
        ctx.enqueue(child.call())

    @app.task
    async def child() -> None: ...

    async with app:
        job = await work.enqueue()
        await drain(app)
        records = [await app.client.session.jobs.get(found.id) for found in await app.find()]
        assert len(records) == 2
        assert all(record is not None and record.headers is None for record in records), job


async def test_nothing_is_made_for_a_tracer_when_nobody_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    app = shop()

    @app.task
    async def work(ctx: Context) -> None:
        ctx.enqueue(child.call())

    @app.task
    def child() -> None: ...

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something was done for nobody")

    for module in ("client", "slots", "ledger", "handling"):
        for name in ("following", "begun", "ended", "settled"):
            monkeypatch.setattr(f"holdfast.engine.{module}.{name}", refuse, raising=False)
    monkeypatch.setattr(tracing, "carrying", refuse)
    monkeypatch.setattr(Notices, "tell", refuse)
    async with app:
        await work.enqueue()
        await app.enqueue_many([work.call()])
        await drain(app)
        assert (await app.stats()).completed == 4
