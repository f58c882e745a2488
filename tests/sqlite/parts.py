"""The parts that other processes play in the SQLite tests: `python -m tests.sqlite.parts PART ARGUMENTS`.

Each says line by line what it has done, and waits for a line where the test decides when to go on.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any
from uuid import uuid4

from holdfast.model.events import NewEvent
from holdfast.model.flow import LimitRecord, Scope, gate
from holdfast.model.lifecycle import State
from holdfast.model.records import Move, Verdict
from holdfast.stores.sqlite import SqliteStore
from tests.sqlite.support import QUEUE, new_job, register, success, tick


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def hear() -> str:
    line: str = await asyncio.to_thread(sys.stdin.readline)
    return line.strip()


async def add_and_work(url: str, number: str, jobs: str) -> None:
    """Adds jobs in small batches, and works until all are done; tells what it had accepted."""
    session = await SqliteStore.from_url(url).connect("default")
    worker = f"worker-{number}"
    await register(session, worker)
    say("ready")
    await hear()
    added = 0
    seq = 0
    moves: list[Move] = []
    while True:
        if added < int(jobs):
            batch = [new_job(id=str(uuid4())) for _ in range(min(5, int(jobs) - added))]
            answers = await session.jobs.add(batch)
            added += sum(answer.created for answer in answers)
        seq += 1
        ticked = await tick(session, seq, *moves, worker=worker, limit=7)
        for move, verdict in zip(moves, ticked.verdicts, strict=True):
            say("accepted" if verdict is Verdict.ACCEPTED else "refused", move.job)
        moves = [success(job) for job in ticked.claimed]
        if not moves and added >= int(jobs):
            break
    await session.close()


async def add_until_killed(url: str) -> None:
    """Adds jobs one after the other, and says each id after it was acknowledged."""
    session = await SqliteStore.from_url(url).connect("default")
    while True:
        job = new_job(id=str(uuid4()), payload=b"x" * 2_000)
        await session.jobs.add([job])
        say(job.id)


async def add_with_wrong_clock(url: str, seconds_off: str) -> None:
    """Adds one due job and one that is due in 60 s, by a wall clock that is wrong, and claims what is due."""
    off = int(float(seconds_off) * 1e9)
    right_ns, right = time.time_ns, time.time
    time.time_ns = lambda: right_ns() + off
    time.time = lambda: right() + off / 1e9
    session = await SqliteStore.from_url(url).connect("default")
    due, later = new_job(id=str(uuid4())), new_job(id=str(uuid4()), delay=60_000_000)
    answers = await session.jobs.add([due, later])
    await register(session, "wrong")
    ticked = await tick(session, 1, worker="wrong")
    say(answers[0].record.created, ",".join(job.id for job in ticked.claimed), due.id)
    await session.close()


async def migrate(url: str) -> None:
    say("ready")
    await hear()
    store = SqliteStore.from_url(url)
    assert store.migrations is not None
    say(*await store.migrations.apply())


async def add_one(url: str) -> None:
    """Adds a job whenever it is told to, until its input ends."""
    session = await SqliteStore.from_url(url).connect("default")
    say("ready")
    while await hear():
        await session.jobs.add([new_job(id=str(uuid4()))])
        say(time.monotonic_ns())
    await session.close()


async def hold_the_lock(url: str) -> None:
    """Keeps a write transaction open until it is told to end it."""
    store = SqliteStore.from_url(url)
    async with store.transactions.begin():
        say("held")
        await hear()
    say("ended")


async def append(url: str, number: str, events: str) -> None:
    """Appends events one by one, and says each id after it was acknowledged."""
    session = await SqliteStore.from_url(url).connect("default")
    say("ready")
    await hear()
    for place in range(int(events)):
        told = NewEvent(id=f"{number}-{place}", topic="orders", type="placed", data=b"1", aggregate="all")
        await session.events.append([told])
        say(told.id)
    await session.close()


async def follow(url: str, events: str) -> None:
    """Reads events behind the last position that it saw until it has seen so many, and says each."""
    session = await SqliteStore.from_url(url).connect("default")
    say("ready")
    await hear()
    after = seen = 0
    while seen < int(events):
        page = await session.events.read(after, 7)
        for told in page.records:
            say(told.position, told.id)
        seen += len(page.records)
        after = page.upto
    await session.close()


async def work_within_limits(url: str, number: str) -> None:
    """Works until nothing is left, holding jobs for a while, and tells if more were leased than allowed."""
    session = await SqliteStore.from_url(url).connect("default")
    worker = f"worker-{number}"
    await register(session, worker)
    say("ready")
    await hear()
    keys = [gate(Scope.KEY, f"key-{key}") for key in range(9)]
    moves: list[Move] = []
    for seq in count(1):
        ticked = await tick(session, seq, *moves, worker=worker, limit=3)
        for move in moves:
            say("done", move.job)
        queue, *of_keys = await session.flow.usage([gate(Scope.QUEUE, QUEUE), *keys])
        if queue.running > 7 or any(key.running > 2 for key in of_keys):
            say("more", queue.running, *(key.running for key in of_keys))
        moves = [success(job) for job in ticked.claimed]
        lines = await session.jobs.count()
        if all(line.state is State.SUCCESS for line in lines):
            break
    await session.close()


async def put_a_limit(url: str, queue: str, concurrency: str) -> None:
    session = await SqliteStore.from_url(url).connect("default")
    await session.flow.put([LimitRecord(scope=Scope.QUEUE, name=queue, concurrency=int(concurrency))])
    say("put")
    await session.close()


PARTS: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {
    part.__name__: part
    for part in (
        add_and_work,
        add_until_killed,
        add_with_wrong_clock,
        migrate,
        add_one,
        hold_the_lock,
        append,
        follow,
        work_within_limits,
        put_a_limit,
    )
}

if __name__ == "__main__":
    asyncio.run(PARTS[sys.argv[1]](*sys.argv[2:]))
