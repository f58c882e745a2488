"""Jobs of batches that add more jobs to them, each in another place to run in."""

from holdfast import Context, Holdfast

app = Holdfast("memory://")


@app.task(run_in="process")
def grow_in_process(ctx: Context, batch: str, depth: int) -> None:
    if depth:
        ctx.enqueue(grow_in_process.call(batch, depth - 1), batch=batch)


@app.task
def grow_in_thread(ctx: Context, batch: str, depth: int) -> None:
    if depth:
        ctx.enqueue(grow_in_thread.call(batch, depth - 1), batch=batch)


@app.task
async def grow(ctx: Context, batch: str, depth: int) -> None:
    if depth:
        ctx.enqueue(grow.call(batch, depth - 1), batch=batch)


@app.task
async def count(ctx: Context) -> int:
    return ctx.unmet
