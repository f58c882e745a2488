"""The application of the tests of flow control: limited, in sequence, in batches."""

import asyncio

from holdfast import Context, Fixed, Holdfast, Limit
from tests.chaos.program import leave

MOST = 2
"""How many jobs of one key may be leased at once."""

app = Holdfast()


@app.task(key_limit=Limit(concurrency=MOST), limit_by="key", retry=Fixed(max_retries=3, wait=0))
async def limited(ctx: Context, key: str, seconds: float, fails: bool = False) -> None:
    leave("began", ctx)
    await asyncio.sleep(seconds)
    if fails and not ctx.job.failures:
        raise ValueError("as asked")
    leave("ended", ctx)


@app.task(sequence_by="line", retry=Fixed(max_retries=3, wait=0))
async def step(ctx: Context, line: str, number: int, fails: bool = False) -> None:
    leave("began", ctx)
    await asyncio.sleep(0.01)
    if fails and not ctx.job.failures:
        raise ValueError("as asked")
    leave("ended", ctx)


@app.task(run_in="process", sequence_by="line", retry=Fixed(max_retries=3, wait=0))
def step_in_process(ctx: Context, line: str, number: int) -> None:
    leave("began", ctx)
    if number % 3 == 1 and not ctx.job.failures:
        raise ValueError("as asked")
    leave("ended", ctx)


@app.task
async def member(ctx: Context, batch: str, children: int) -> None:
    leave("began", ctx)
    for _ in range(children):
        ctx.enqueue(member.call(batch, 0), batch=batch)
    leave("ended", ctx)


@app.task
async def closing(ctx: Context) -> int:
    leave("began", ctx)
    leave("ended", ctx)
    return ctx.unmet
