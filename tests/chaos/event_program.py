"""An application whose jobs emit events, and whose group enters each event into a ledger with its progress.

On SQL stores the ledger is a table; on Redis it is the file of effects, one line for each time.
"""

import asyncio
import os

from holdfast import Context, Event, Fixed, Holdfast

app = Holdfast()

TOPIC, GROUP = "orders", "billing"
LOCK = f"holdfast.on:{GROUP}:{TOPIC}"
AGAIN = Fixed(max_retries=10_000, wait=0.05)
"""A transaction that was cut off is a failure of its attempt."""

TABLE = {
    "sqlite": "CREATE TABLE ledger (n INTEGER PRIMARY KEY, name TEXT, aggregate TEXT, version INTEGER)",
    "postgresql": "CREATE TABLE ledger (n bigserial, name text, aggregate text, version bigint)",
}
ENTER = {
    "sqlite": "INSERT INTO ledger (name, aggregate, version) VALUES (?, ?, ?)",
    "postgresql": "INSERT INTO ledger (name, aggregate, version) VALUES ($1, $2, $3)",
}
READ = "SELECT name, aggregate, version FROM ledger ORDER BY n"
SLOWNESS = 0.01


def named(name: str) -> Event[str]:
    """An event of the aggregate that its name begins with; some of them fail at first."""
    return Event(topic=TOPIC, type="named", data=name, aggregate=name[0])


@app.task(retry=AGAIN)
async def produce(ctx: Context, names: list[str]) -> None:
    for name in names:
        ctx.emit(named(name))
    await asyncio.sleep(SLOWNESS)


@app.task(retry=AGAIN, run_in="process")
def produce_in_process(ctx: Context, names: list[str]) -> None:
    for name in names:
        ctx.emit(named(name))
    if ctx.run == 1:
        raise ValueError("after it had emitted")


@app.on(TOPIC, group=GROUP, retry=AGAIN)
async def enter(ctx: Context, event: Event[str]) -> None:
    if ctx.run == 1 and event.data.endswith("7"):
        raise ValueError("at first it fails")
    assert event.aggregate is not None
    kind = os.environ["HOLDFAST_STORE"].partition(":")[0]
    if kind not in ENTER:
        await asyncio.sleep(SLOWNESS)
        _append(f"{event.data} {event.aggregate} {event.version}\n")
        return
    entry = (event.data, event.aggregate, event.version)
    async with ctx.transaction() as tx:
        await tx.connection.execute(ENTER[kind], *([entry] if kind == "sqlite" else entry))
        await asyncio.sleep(SLOWNESS)


def _append(line: str) -> None:
    """One write to the end of the file."""
    file = os.open(os.environ["CHAOS_EFFECTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)
