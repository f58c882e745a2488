"""An application whose handlers run in child processes; its own store is not the one that the tests use."""

from holdfast import Context, Holdfast, Never

app = Holdfast("sqlite:///own.db")


@app.task
async def add(a: int) -> int:
    return a


@app.task(run_in="process", retry=Never())
def enqueues() -> str:
    return add.enqueue_sync(3).id


@app.task(run_in="process", retry=Never())
def commits(ctx: Context) -> str:
    with ctx.sync_transaction() as tx:
        tx.complete("committed")
    return "not this"
