"""Handlers that run in processes of their own, and tell which span is the current one there."""

import asyncio

from opentelemetry import trace

from holdfast import Context, Holdfast
from holdfast.telemetry.otel import Tracing

app = Holdfast("memory://", leader_candidate=False, poll_seconds=0.05)
tracing = Tracing(app)


def current() -> list[str]:
    found = trace.get_current_span().get_span_context()
    return [f"{found.trace_id:032x}", f"{found.span_id:016x}"]


@app.task(run_in="process")
def order(ctx: Context) -> list[str]:
    ctx.enqueue(child.call())
    return current()


@app.task(run_in="process")
async def order_async(ctx: Context) -> list[str]:
    await asyncio.sleep(0)
    ctx.enqueue(child.call())
    return current()


@app.task
async def child() -> None: ...
