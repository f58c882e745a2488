"""Ways that a trace takes: into jobs, transactions, schedules, processes, and by links."""

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

from holdfast import Context, Event, Holdfast, at, every
from holdfast.engine.ids import new_id
from holdfast.engine.tracing import made
from holdfast.model.events import EventRecord
from holdfast.model.headers import carried
from tests.telemetry import process_shop
from tests.telemetry.spans import PATIENCE, Spans, attributes, drain, migrate, shop, traces


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
