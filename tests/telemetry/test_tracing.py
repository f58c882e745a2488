"""One trace from whoever asked to the last effect, wherever the work went in between."""

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from holdfast import Context, Event, Fixed, KeyConflict
from holdfast.engine.ids import new_id
from holdfast.engine.tracing import made
from tests.engine.rig import Gate, Rig
from tests.telemetry.spans import Spans, attributes, drain, migrate, shop, traces


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
