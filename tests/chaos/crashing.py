"""Processes that kill themselves at a point of a store call: `python -m tests.chaos.crashing CALL ...`.

Each call is made in three processes, one for each point, and in a namespace of its own for each of them.
"""

import asyncio
import os
import sys
import uuid
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

from holdfast import OutcomeUnknown
from holdfast.model import lifecycle
from holdfast.model.lifecycle import Ending, State
from holdfast.model.records import Move, Tick, Want, WorkerRecord
from holdfast.store import Session
from tests.chaos import program
from tests.chaos.failpoint import POINTS, Failpoint, die
from tests.chaos.waiting import until, until_async

AT_ONCE = 3
UNREACHED = 3
GHOST = WorkerRecord(id="ghost", host="ghost", pid=1, queues=("default",), tasks=(), concurrency=1)

Ready = Callable[[], object]
"""Called by a scenario when the next call is the one."""

app = program.app


def namespace(call: str, point: str) -> str:
    return f"{call}-{point}"


def job_id(call: str, point: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, namespace(call, point)))


async def crash(call: str, point: str) -> None:
    """Makes the call, and ends at the point."""
    failpoint = Failpoint(call, point)
    failpoint.install()
    job = job_id(call, point)
    async with app:
        try:
            await SCENARIOS.get(call, serve)(job, failpoint.set)
        except OutcomeUnknown:
            die()
        if failpoint.is_lost:
            die()


async def add(job: str, ready: Ready) -> None:
    ready()
    await program.work.using(id=job).enqueue()


async def serve(job: str, ready: Ready) -> None:
    await program.work.using(id=job).enqueue()
    ready()
    await app.worker().run(until_idle=True)


async def serve_long(job: str, ready: Ready) -> None:
    await program.wait_for.using(id=job).enqueue("gate")
    ready()
    await app.worker().run(until_idle=True)


async def serve_failing(job: str, ready: Ready, times: int) -> None:
    await program.fail.using(id=job).enqueue(times)
    ready()
    await app.worker().run(until_idle=True)


async def serve_suspect(job: str, ready: Ready) -> None:
    await haunt(job, lease=1)
    async with app.worker(queues=["empty"]):
        await until_async(partial(is_in, job, State.SCHEDULED), "it is reclaimed")
    ready()
    await app.worker().run(until_idle=True)


async def serve_expired(job: str, ready: Ready) -> None:
    await haunt(job, lease=1)
    ready()
    async with app.worker():
        await until_async(partial(is_in, job, State.SUCCESS), "it is reclaimed and run")


async def release(job: str, ready: Ready) -> None:
    await program.wait_for.using(id=job).enqueue("gate")
    async with app.worker() as worker:
        await until(lambda: worker.running, "it runs")
        ready()
        worker.stop(0)


async def cancel(job: str, ready: Ready) -> None:
    await program.work.using(id=job).enqueue()
    ready()
    await app.cancel(job)


async def ask_cancel(job: str, ready: Ready) -> None:
    await haunt(job, lease=1_000_000)
    ready()
    await app.cancel(job)


async def replay(job: str, ready: Ready) -> None:
    token = await haunt(job, lease=1_000_000)
    move = Move(job=job, token=token, path=lifecycle.DEAD_LETTERED, outcome=Ending.FAILED, failures=1)
    await session().jobs.tick(Tick(worker=GHOST.id, seq=2, moves=[move]))
    ready()
    await app.replay(job)


async def change(job: str, ready: Ready) -> None:
    await program.work.using(id=job).enqueue()
    ready()
    await app.edit(job, priority=7)


async def delete(job: str, ready: Ready) -> None:
    await program.work.using(id=job).enqueue()
    ready()
    await app.delete(job)


async def prune(job: str, ready: Ready) -> None:
    await serve(job, bool)
    ready()
    await session().jobs.prune(0, 10)


async def pause(job: str, ready: Ready) -> None:
    await program.work.using(id=job).enqueue()
    ready()
    await app.queues.pause("default")


async def resume(job: str, ready: Ready) -> None:
    await pause(job, bool)
    ready()
    await app.queues.resume("default")


SCENARIOS: dict[str, Callable[[str, Ready], Awaitable[None]]] = {
    "add": add,
    "start": serve_suspect,
    "retry": partial(serve_failing, times=1),
    "dead-letter": partial(serve_failing, times=2),
    "release": release,
    "reclaim": serve_expired,
    "extend": serve_long,
    "beat": serve_long,
    "cancel": cancel,
    "ask-cancel": ask_cancel,
    "replay": replay,
    "change": change,
    "delete": delete,
    "prune": prune,
    "pause": pause,
    "resume": resume,
}


def session() -> Session:
    return app.client.session


async def is_in(job: str, state: State) -> bool:
    found = await app.get(job)
    return found is not None and found.state is state


async def haunt(job: str, lease: int) -> int:
    """A job that is held by a worker that does not exist; its token."""
    await program.work.using(id=job).enqueue()
    await session().fleet.register(GHOST, 1_000_000)
    want = Want(queues=("default",), tasks=frozenset({"work"}), limit=1, lease=lease)
    [claimed] = (await session().jobs.tick(Tick(worker=GHOST.id, seq=1, moves=[], want=want))).claimed
    return claimed.token


def fork(call: str, point: str) -> int:
    pid = os.fork()
    if pid == 0:
        os.environ["HOLDFAST_NAMESPACE"] = namespace(call, point)
        try:
            asyncio.run(crash(call, point))
        finally:
            os._exit(UNREACHED)
    return pid


def main(calls: list[str]) -> None:
    """Has all points of the calls crashed, a few at once; says how each process ended."""
    left: Iterator[tuple[str, str]] = iter([(call, point) for call in calls for point in POINTS])
    running: dict[int, tuple[str, str]] = {}
    while True:
        while len(running) < AT_ONCE and (following := next(left, None)) is not None:
            running[fork(*following)] = following
        if not running:
            return
        pid, status = os.wait()
        print("crashed", *running.pop(pid), -os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
