"""Handlers that run in processes of their own."""

import asyncio
import contextvars
import os
import resource
import signal
import subprocess
import threading
from typing import Any, Self

from holdfast import Context, Holdfast
from holdfast.model.retry import ByException, Fixed, Never

app = Holdfast("memory://", state="shared")
variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


class Known(Exception):
    """Takes two arguments, as many do, and cannot be made without them."""

    def __new__(cls, first: int, second: int) -> Self:
        return super().__new__(cls, first, second)


class Plain(Exception): ...


@app.task(run_in="process")
def pid() -> int:
    return os.getpid()


@app.task(run_in="process")
def look() -> list[str | None]:
    before = variable.get()
    variable.set("set by a job")
    return [before, os.environ.get("PYTHONPATH")]


@app.task(run_in="process", retry=Never())
def ends(code: int) -> None:
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code)


@app.task(run_in="process", retry=Never(), timeout=1)
def ignores_term(ctx: Context) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    other = subprocess.Popen(["sleep", "600"])
    ctx.progress(0.5, str(other.pid))
    other.wait()


@app.task(run_in="process", retry=Never())
def raises(kind: str) -> None:
    errors: dict[str, BaseException] = {
        "exit": SystemExit(3),
        "interrupt": KeyboardInterrupt(),
        "surrogate": ValueError("\ud800"),
    }
    raise errors[kind]


@app.task(run_in="process", retry=ByException({Plain: Fixed(3, wait=60)}, Never()))
def raises_plain() -> None:
    raise Plain("by type")


@app.task(run_in="process", retry=ByException({Known: Fixed(3, wait=60)}, Never()))
def raises_known() -> None:
    raise Known(1, 2)


@app.task(run_in="process", retry=Never())
def gives(what: str) -> Any:
    if what == "coroutine":
        return asyncio.sleep(0)
    return object() if what == "object" else "x" * 3_000_000


@app.task(run_in="process", retry=Never())
def eats_memory() -> int:
    resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
    return len(bytearray(2**34))


@app.task(run_in="process")
def reports(ctx: Context) -> Any:
    def chatter() -> None:
        while not over.is_set():
            ctx.progress(0.1, "chatter")

    over = threading.Event()
    chatterers = [threading.Thread(target=chatter, daemon=True) for _ in range(4)]
    for each in chatterers:
        each.start()
    for step in range(200):
        ctx.progress(step / 200, f"step {step}")
    ctx.enqueue(pid.call())
    # Two go on after the end: what they say must reach nobody.
    return ctx.state


@app.task(run_in="process")
async def waits(ctx: Context) -> str:
    ctx.progress(0.5, "waiting")
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        ctx.log.info("cancelled")
    return "never"


@app.task(run_in="process")
def holds_the_gil() -> int:
    return sum(range(40_000_000))


@app.task
async def holds_our_gil() -> int:
    return sum(range(10_000_000))
