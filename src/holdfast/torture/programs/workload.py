"""The application that is tortured: its tasks, and what they write down of themselves.

A third of the jobs write a row to the ledger in the transaction of their own completion (on SQL stores), a
third have an effect outside. Some fail, some block the interpreter, some kill their worker, some eat memory.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import signal
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

from holdfast.app import Holdfast
from holdfast.engine.context import Context
from holdfast.model.errors import LeaseLost, OutcomeUnknown
from holdfast.model.events import Event
from holdfast.model.retry import Fixed
from holdfast.torture.history import Call, Consumed, Effect, End, Ended, Start, Unknown, Verdict
from holdfast.torture.programs import listening, lossy, sleeping
from holdfast.torture.programs.witness import LOSS, WHO, end_with_campaign, recorder

TOPIC: Final = "orders"
LEDGER_GROUP, PLAIN_GROUP = "billing", "audit"
RETRIES: Final = 2
SOON: Final = Fixed(max_retries=RETRIES, wait=0.2)
PATIENT: Final = Fixed(max_retries=10_000, wait=0.2)
"""For what fails only because the store was cut off under it."""

MANY: Final = 8
"""Of so many jobs one tells an event: events are consumed one at a time, jobs are not."""
HOARD_BYTES: Final = 256 << 20
_ENTER: Final = {
    "sqlite": "INSERT INTO ledger (job, token) VALUES (?, ?)",
    "postgresql": "INSERT INTO ledger (job, token) VALUES ($1, $2)",
}

app = Holdfast()


def store_kind() -> str:
    return app.settings.store.partition(":")[0]


@contextmanager
def told(ctx: Context[Any]) -> Generator[None]:
    """Writes down that the attempt begins, and how its handler ended."""
    job = ctx.job
    write = recorder().write
    write(Start(job=job.id, task=job.task, run=job.run, token=job.token))
    try:
        yield
    except OutcomeUnknown:
        raise  # whether it is a success is for the worker to find out
    except BaseException as error:
        write(End(job=job.id, run=job.run, token=job.token, outcome=_outcome(error)))
        raise
    write(End(job=job.id, run=job.run, token=job.token, outcome="success"))


def _outcome(error: BaseException) -> Ended:
    if isinstance(error, LeaseLost):
        return "lost"
    return "cancelled" if isinstance(error, asyncio.CancelledError) else "failure"


@contextmanager
def refused(ctx: Context[Any]) -> Generator[None]:
    """Writes down that the store refused a completion inside of a transaction."""
    try:
        yield
    except LeaseLost:
        job = ctx.job
        recorder().write(Verdict(job=job.id, token=job.token, outcome="success", accepted=False))
        raise


def effect(ctx: Context[Any]) -> None:
    recorder().write(Effect(job=ctx.job.id, run=ctx.run, token=ctx.token))


@asynccontextmanager
async def entered(ctx: Context[Any]) -> AsyncGenerator[None]:
    """Has a row written to the ledger when the block is left, together with the job's success."""
    statement = _ENTER.get(store_kind())
    if statement is None:
        yield
        return
    values = (ctx.job.id, ctx.token)
    with refused(ctx):
        async with ctx.transaction() as tx:
            yield
            await tx.connection.execute(statement, *([values] if store_kind() == "sqlite" else values))


@app.task(retry=PATIENT)
async def short(ctx: Context[Any], number: int, secret: str) -> int:
    """A millisecond of work."""
    with told(ctx):
        effect(ctx)
        return number


@app.task(retry=PATIENT)
async def entry(ctx: Context[Any], number: int) -> None:
    """A short job with its row in the ledger."""
    with told(ctx):
        async with entered(ctx):
            pass


@app.task(retry=PATIENT)
def entry_in_thread(ctx: Context[Any], number: int) -> None:
    """The same from a thread, by the blocking transaction, where that needs no driver of its own."""
    with told(ctx):
        if store_kind() != "sqlite":
            effect(ctx)
            return
        with refused(ctx), ctx.sync_transaction() as tx:
            tx.connection.execute(_ENTER["sqlite"], (ctx.job.id, ctx.token))


@app.task(retry=PATIENT)
async def medium(ctx: Context[Any], number: int, seconds: float) -> None:
    """Waits for a while; some have an event told with their success."""
    with told(ctx):
        await asyncio.sleep(seconds)
        effect(ctx)
        if not number % MANY:
            _emit(ctx, number)


def _emit(ctx: Context[Any], number: int) -> None:
    aggregate = f"order-{number % 50}"
    event = ctx.emit(Event(topic=TOPIC, type="worked", data=number, aggregate=aggregate))
    op = recorder().call(Call(verb="emit", event=event, aggregate=aggregate, job=ctx.job.id))
    recorder().write(Unknown(op=op, error="travels with the success"))


@app.task(retry=PATIENT)
async def long(ctx: Context[Any], number: int, seconds: float) -> None:
    """Runs for several leases, heedless of being told to stop, as code of users is."""
    with told(ctx):
        await _heedless(seconds)
        effect(ctx)


async def _heedless(seconds: float) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        try:
            await asyncio.sleep(min(left, 0.2))
        except asyncio.CancelledError:
            # It goes on for a moment, so that it reports late what it did.
            await asyncio.sleep(0)
            return


@app.task(retry=PATIENT)
def in_thread(ctx: Context[Any], number: int, seconds: float) -> None:
    """Blocks a thread, and never looks whether it may go on."""
    with told(ctx):
        time.sleep(seconds)
        effect(ctx)


@app.task(retry=PATIENT, run_in="process")
def in_process(ctx: Context[Any], number: int, seconds: float) -> None:
    """The same in a process of its own."""
    with told(ctx):
        time.sleep(seconds)
        effect(ctx)


@app.task(retry=SOON)
async def stumbles(ctx: Context[Any], number: int, failures: int) -> None:
    """Fails at first."""
    with told(ctx):
        if ctx.job.failures < failures:
            raise ValueError(f"failure {ctx.job.failures + 1} of {failures}")
        effect(ctx)


@app.task(retry=Fixed(max_retries=1, wait=0.1))
async def doomed(ctx: Context[Any], number: int) -> None:
    """Fails always, and ends among the dead letters."""
    with told(ctx):
        raise ValueError("always")


@app.task(retry=PATIENT)
def hogs(ctx: Context[Any], number: int, seconds: float) -> None:
    """Holds the interpreter's lock for longer than a lease, so that not even the heartbeat's thread runs."""
    with told(ctx):
        # A library that is loaded so keeps the lock during its calls.
        sleep: Callable[[int], int] = ctypes.PyDLL(None).usleep
        sleep(int(seconds * 1_000_000))


@app.task(retry=Fixed(max_retries=0, wait=0.1))
async def kills(ctx: Context[Any], number: int) -> None:
    """Kills its worker, each time."""
    with told(ctx):
        await asyncio.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)


@app.task(retry=Fixed(max_retries=0, wait=0.1), run_in="process")
def hoards(ctx: Context[Any], number: int) -> None:
    """Eats memory until there is no more: its process has a limit."""
    with told(ctx):
        before = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (_address_space() + HOARD_BYTES, before[1]))
        try:
            eaten: list[bytearray] = []
            while True:
                eaten.append(bytearray(HOARD_BYTES // 8))
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)


def _address_space() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123  one line, read at once
        return int(statm.read().split()[0]) * resource.getpagesize()


@app.task(retry=PATIENT)
async def fired(ctx: Context[Any], schedule: str) -> None:
    """What schedules fire."""
    with told(ctx):
        effect(ctx)


@app.on(TOPIC, group=LEDGER_GROUP, retry=PATIENT)
async def bill(ctx: Context[Any], event: Event[int]) -> None:
    """Enters events into a ledger of its own, in one transaction with the group's progress."""
    _consumed(LEDGER_GROUP, ctx, event)
    statement = _BILL.get(store_kind())
    if statement is None:
        return
    values = (event.id, event.aggregate, event.version)
    async with ctx.transaction() as tx:
        await tx.connection.execute(statement, *([values] if store_kind() == "sqlite" else values))


_BILL: Final = {
    "sqlite": "INSERT INTO billed (event, aggregate, version) VALUES (?, ?, ?)",
    "postgresql": "INSERT INTO billed (event, aggregate, version) VALUES ($1, $2, $3)",
}


@app.on(TOPIC, group=PLAIN_GROUP, retry=PATIENT)
async def audit(ctx: Context[Any], event: Event[int]) -> None:
    """Is told of events at least once."""
    _consumed(PLAIN_GROUP, ctx, event)


def _consumed(group: str, ctx: Context[Any], event: Event[int]) -> None:
    assert event.id is not None
    assert event.aggregate is not None
    assert event.version is not None
    recorder().write(
        Consumed(
            group=group,
            event=event.id,
            aggregate=event.aggregate,
            version=event.version,
            again=ctx.run > 1,
        )
    )


LEDGER_TASKS: Final = {"sqlite": ("entry", "entry_in_thread"), "postgresql": ("entry",)}
"""The tasks whose every success has one row in the ledger, by the kind of store."""


if WHO in os.environ:
    sleeping.install()
    listening.listen(app)
    if float(os.environ.get(LOSS, "0")):
        lossy.install(float(os.environ[LOSS]))
    end_with_campaign()
