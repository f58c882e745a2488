"""A tracer that breaks harms nobody, and one that is not there costs nothing."""

from typing import Any

import pytest

from holdfast import ConfigurationError, Context, Event
from holdfast.engine import tracing
from holdfast.engine.notices import Notices
from tests.telemetry.spans import Spans, drain, shop


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
