"""Applications whose spans are kept in memory."""

from __future__ import annotations

import asyncio
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Tracer

from holdfast import Holdfast
from holdfast.stores import open_store
from holdfast.telemetry.otel import Traced, Tracing

PATIENCE = 20.0


class Spans:
    """What an application and its surroundings had to say."""

    def __init__(self, app: Traced, **options: Any) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracing = Tracing(app, tracer_provider=self.provider, **options)

    @property
    def web(self) -> Tracer:
        """What a web framework would make its spans with."""
        return self.provider.get_tracer("web")

    def all(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.all() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        found = self.named(name)
        assert len(found) == 1, [span.name for span in self.all()]
        return found[0]

    def path(self, span: ReadableSpan) -> list[str]:
        """The names from the root down to the span."""
        by_id = {each.context.span_id: each for each in self.all()}
        names = [span.name]
        while span.parent is not None:
            span = by_id[span.parent.span_id]
            names.insert(0, span.name)
        return names


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def traces(spans: list[ReadableSpan]) -> set[int]:
    return {span.context.trace_id for span in spans}


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
