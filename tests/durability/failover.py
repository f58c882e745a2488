"""A server that is lost under load, and comes back or has a successor: what became of its answers."""

import asyncio
import signal
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from holdfast.model.errors import StoreError
from holdfast.model.lifecycle import FINISHED, State
from holdfast.model.overrides import Overrides
from holdfast.model.records import JobRecord
from holdfast.store import Session
from holdfast.stores import open_store
from tests.chaos.harness import Site
from tests.chaos.process import Process
from tests.chaos.waiting import until, until_async
from tests.durability.acknowledged import SETTING, Acknowledged, read_all
from tests.durability.aftermath import Aftermath, every_job, miscounted
from tests.durability.tally import Tally

SETTINGS = Overrides(lease_seconds=4, poll_seconds=0.5, reclaim_seconds=0.5)
FIRST, MORE = 150, 50
"""So many jobs are done before the fault, and so many more after it."""
_ENDLESS = "1000000"
_PATIENCE = 60

Fault = Callable[[], int]
"""Takes the server away, and returns when it is back or has a successor; gives when it went. Blocks."""


def now() -> int:
    """The machine's monotonic clock, by which answers are stamped."""
    return time.monotonic_ns() // 1_000


async def endure(site: Site, fault: Fault, tally: Tally, told: str) -> None:
    """One trial: load, the fault, more load; then all that is left is done, and compared with the answers."""
    answers = site.folder / "acknowledged"
    producer = start(site, answers, "produce", _ENDLESS)
    workers = [start(site, answers, "work") for _ in range(2)]
    await flow(site, answers, FIRST)
    lost_at = await asyncio.to_thread(fault)
    await flow(site, answers, len(read_all(answers).done) + MORE)
    producer.signal(signal.SIGTERM)
    await producer.ends()
    stuck = await settle(site)
    for worker in workers:
        worker.kill()
    known = read_all(answers)
    known.until = lost_at
    found = await judge(site.url, known)
    found.stuck = stuck
    tally.count(known, found, told)


def start(site: Site, answers: Path, *words: str) -> Process:
    return site.start("-m", "tests.durability.program", *words, **{SETTING: str(answers)})


async def flow(site: Site, answers: Path, count: int) -> None:
    """Waits until so many jobs were done."""

    def done() -> int:
        return len(read_all(answers).done)

    await until(done, f"{count} jobs are done", count.__le__, within=_PATIENCE, show=site.printed)


async def settle(site: Site) -> list[str]:
    """Waits until nothing is left to be done; what is stuck, if that takes too long."""

    async def live() -> list[str]:
        try:
            return [job.id for job in await stored(site.url) if job.state not in FINISHED]
        except StoreError as error:
            return [repr(error)]

    try:
        return await until_async(live, "all is done", lambda left: not left, within=_PATIENCE)
    except AssertionError:
        return await live()


async def stored(url: str) -> list[JobRecord]:
    """All jobs that the store has."""
    async with opened(url) as session:
        return await every_job(session)


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[Session]:
    store = open_store(url)
    session = await store.connect("default")
    try:
        yield session
    finally:
        await session.close()
        await store.close()


async def judge(url: str, known: Acknowledged) -> Aftermath:
    """Compares the answers with the store, once all that is left in it is finished.

    A success that was acknowledged and then lost shows by a greater token: of the attempt that came after it.
    """
    async with opened(url) as session:
        kept = {job.id: job for job in await every_job(session)}
        found = Aftermath(left=len(kept), miscounted=await miscounted(session, kept.values()))
    found.lost = [job for job in {**known.stored, **known.done} if job not in kept]
    found.undone = [
        job
        for job, done in known.done.items()
        if job in kept and (kept[job].state, kept[job].token) != (State.SUCCESS, done[0].token)
    ]
    for job, tokens in known.claims.items():
        last = [kept[job].token] if job in kept else tokens[-1:]
        if tokens != sorted(set(tokens)) or last < tokens[-1:]:
            found.low_tokens.append(job)
    return found
