"""An application whose handlers run in child processes; its own store is not the one that the tests use."""

import logging

from holdfast import Context, Holdfast, Never

app = Holdfast("sqlite:///own.db")


@app.task
async def add(a: int) -> int:
    return a


@app.task(run_in="process", retry=Never())
def enqueues() -> str:
    return add.enqueue_sync(3).id


@app.task(run_in="process", retry=Never())
async def enqueues_on_its_loop() -> str:
    return (await add.enqueue(3)).id


@app.task(run_in="process", retry=Never())
async def opens_and_enqueues() -> str:
    async with app:
        return (await add.enqueue(3)).id


@app.task(run_in="process", retry=Never())
def commits(ctx: Context) -> str:
    with ctx.sync_transaction() as tx:
        tx.complete("committed")
    return "not this"


@app.task(run_in="process", retry=Never())
def forgets(ctx: Context) -> str:
    with ctx.sync_transaction():
        pass
    return "dropped"


@app.task(run_in="process", retry=Never())
def logs(ctx: Context, text: str) -> None:
    ctx.log.debug("too quiet to be told")
    ctx.log.info(text, fields={"size": 2**70, "odd": float("nan"), "job": "another"})
    try:
        raise ValueError(text)
    except ValueError:
        logging.getLogger("shop").exception("went wrong", extra={"order": 42})
