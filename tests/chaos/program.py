"""The application of these tests: handlers that work, wait, hold on to things, crash and eat memory.

Every attempt says in a file outside of the system that it began and that it ended: `began job run token pid`.
"""

import asyncio
import ctypes
import multiprocessing
import os
import resource
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from holdfast import Context, Fixed, Holdfast, Never

app = Holdfast()
newer = Holdfast()
"""Another release of the program, which has one task more."""

LEDGER = "INSERT INTO ledger (job, token) VALUES (?, ?)"
KINDS = ("exit", "crash", "kill")


def leave(word: str, ctx: Context) -> None:
    """Leaves an effect: one line, in one write to the end of the file."""
    line = f"{word} {ctx.job.id} {ctx.run} {ctx.token} {os.getpid()}\n"
    file = os.open(os.environ["CHAOS_EFFECTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


def is_open(gate: str) -> bool:
    """Whether whoever waits there may go on."""
    return Path(os.environ["CHAOS_EFFECTS"]).with_name(gate).exists()


@app.task
async def work(ctx: Context, seconds: float = 0.0) -> int:
    leave("began", ctx)
    await asyncio.sleep(seconds)
    leave("ended", ctx)
    return ctx.run


@app.task(retry=Fixed(max_retries=1, wait=0))
async def fail(ctx: Context, times: int) -> None:
    leave("began", ctx)
    if ctx.job.failures < times:
        raise ValueError("as asked")
    leave("ended", ctx)


@newer.task
async def newcomer(ctx: Context) -> None:
    leave("began", ctx)
    leave("ended", ctx)


@app.task
async def wait_for(ctx: Context, gate: str) -> int:
    """Goes on once the gate is there."""
    leave("began", ctx)
    while not is_open(gate):  # noqa: ASYNC110  another process opens it
        await asyncio.sleep(0.01)
    leave("ended", ctx)
    return ctx.run


def pass_gate(gate: str) -> None:
    while not is_open(gate):
        time.sleep(0.01)  # blocks on purpose: a blocking handler that does not look at its context


@app.task
def wait_in_thread(ctx: Context, gate: str) -> None:
    leave("began", ctx)
    pass_gate(gate)
    leave("ended", ctx)


@app.task
def wait_for_own_gate(ctx: Context) -> int:
    """Waits for another gate in every run."""
    leave("began", ctx)
    pass_gate(f"gate-{ctx.run}")
    leave("ended", ctx)
    return ctx.run


@app.task(run_in="process")
def wait_in_process(ctx: Context, gate: str) -> None:
    leave("began", ctx)
    pass_gate(gate)
    leave("ended", ctx)


@app.task
async def block_the_loop(ctx: Context, seconds: float) -> None:
    leave("began", ctx)
    time.sleep(seconds)  # blocks on purpose: nothing else on this event loop can go on  # noqa: ASYNC251
    leave("ended", ctx)


def hold_the_gil(ctx: Context, seconds: float) -> None:
    """A call into C that does not let go of the interpreter; only the first run takes long."""
    leave("began", ctx)
    if ctx.run == 1:
        ctypes.PyDLL(None).usleep(round(seconds * 1e6))
    leave("ended", ctx)


gil_in_thread = app.task(name="gil_in_thread", run_in="thread")(hold_the_gil)


@app.task(run_in="process")
def work_in_process(ctx: Context) -> int:
    leave("began", ctx)
    leave("ended", ctx)
    return ctx.run


@app.task(run_in="process")
def gil_in_process(ctx: Context, seconds: float) -> None:
    hold_the_gil(ctx, seconds)


@app.task
async def swallow(ctx: Context, gate: str) -> None:
    """Does not let itself be cancelled."""
    leave("began", ctx)
    while not is_open(gate):
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            leave("swallowed", ctx)
    leave("ended", ctx)


def die(ctx: Context, how: str) -> None:
    leave("began", ctx)
    if how == "exit":
        os._exit(9)
    os.kill(os.getpid(), signal.SIGSEGV if how == "crash" else signal.SIGKILL)


@app.task
async def kill_worker(ctx: Context, how: str) -> None:
    die(ctx, how)


@app.task(run_in="process", retry=Fixed(max_retries=1, wait=0))
def kill_child(ctx: Context, how: str) -> None:
    die(ctx, how)


@app.task(run_in="process", retry=Fixed(max_retries=1, wait=0))
def eat_memory(ctx: Context, group: str | None) -> None:
    """Takes memory without end, in a memory group that ends it, or up to a limit of its own."""
    leave("began", ctx)
    if group is None:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    else:
        Path(group, "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    eaten = []
    while True:
        eaten.append(bytearray(1 << 20))


@app.task(retry=Never())
def end_a_fork(ctx: Context) -> int:
    """Makes a process by a fork, which hears signals by itself, and ends it by one; its exit code."""
    leave("began", ctx)
    reader, writer = os.pipe()
    fork = os.fork()
    if fork == 0:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
        os.write(writer, b"x")
        time.sleep(60)  # blocks on purpose: until it is ended
        os._exit(0)
    os.read(reader, 1)
    os.kill(fork, signal.SIGTERM)
    code = os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1])
    leave("ended", ctx)
    return code


@app.task(retry=Never())
def use_a_pool(ctx: Context) -> int:
    leave("began", ctx)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        answer = sum(pool.map(abs, range(-10, 1)))
    leave("ended", ctx)
    return answer


def return_twice(ctx: Context) -> int:
    """Forgets that there are two of them after a fork."""
    leave("began", ctx)
    if os.fork() != 0:
        leave("ended", ctx)
    return ctx.run


@app.task(retry=Never())
async def return_twice_from_loop(ctx: Context) -> int:
    return return_twice(ctx)


@app.task(retry=Never())
def return_twice_from_thread(ctx: Context) -> int:
    return return_twice(ctx)


@app.task(run_in="process", retry=Never())
def return_twice_from_child(ctx: Context) -> int:
    return return_twice(ctx)


@app.task(run_in="process", retry=Never())
def leave_an_orphan(ctx: Context, gate: str) -> None:
    """Ends its process, and leaves another that has all of its files open."""
    leave("began", ctx)
    if os.fork() == 0:
        while not is_open(gate):
            time.sleep(0.05)  # blocks on purpose: it outlives the job
        os._exit(0)
    os._exit(9)


@app.task
async def pay(ctx: Context) -> None:
    """An effect in the job's own transaction."""
    leave("began", ctx)
    async with ctx.transaction() as tx:
        await tx.connection.execute(LEDGER, (ctx.job.id, ctx.token))
        await asyncio.sleep(0.002)
    leave("ended", ctx)


@app.task
def pay_blocking(ctx: Context, gate: str | None = None) -> None:
    leave("began", ctx)
    if gate is not None and ctx.run == 1:
        pass_gate(gate)
    with ctx.sync_transaction() as tx:
        tx.connection.execute(LEDGER, (ctx.job.id, ctx.token))
    leave("ended", ctx)


@app.task
def pay_by_own_connection(ctx: Context, gate: str | None = None) -> None:
    leave("began", ctx)
    if gate is not None and ctx.run == 1:
        pass_gate(gate)
    path = os.environ["HOLDFAST_STORE"].removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, timeout=10, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(LEDGER, (ctx.job.id, ctx.token))
        ctx.complete_in_sync(connection)
        connection.execute("COMMIT")
    leave("ended", ctx)
