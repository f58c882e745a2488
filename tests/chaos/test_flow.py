"""Workers that are killed and frozen keep limits, order and batches, on every store that they share."""

import asyncio
import random
import signal
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from holdfast import Attempt, Job
from holdfast.model.overrides import Overrides
from tests.chaos import flow_program
from tests.chaos.flow_program import MOST, closing, limited, member, step
from tests.chaos.harness import Site
from tests.chaos.postgres_site import PostgresSite, seeded
from tests.chaos.process import Process
from tests.chaos.redis_site import RedisSite
from tests.postgres.proxy import Proxy

pytestmark = pytest.mark.process

KEYS = ("one", "two", "three")
LINES = ("first", "second", "third", "fourth")
SETTINGS = Overrides(
    lease_seconds=1.5,
    heartbeat_seconds=0.2,
    reclaim_seconds=0.3,
    poll_seconds=0.2,
    concurrency=4,
    lost_limit=50,
    leader_candidate=False,
)

Freeze = Callable[[Process], Awaitable[None]]


async def test_on_sqlite(tmp_path: Path) -> None:
    async with Site(tmp_path, **SETTINGS) as site:
        await go_through(site, seeded("flow sqlite"), site.freeze)


async def test_on_postgres(tmp_path: Path, postgres_database: str) -> None:
    async with PostgresSite(tmp_path, postgres_database, **SETTINGS) as site:
        await go_through(site, seeded("flow postgres"), stop)


async def test_on_postgres_whose_answers_are_lost(tmp_path: Path, postgres_database: str) -> None:
    chance = seeded("flow postgres lost")
    async with (
        Proxy(postgres_database) as proxy,
        PostgresSite(tmp_path, proxy.url, direct=postgres_database, **SETTINGS) as site,
    ):

        async def cut_off(_: Process) -> None:
            proxy.chance = lambda text: "tick_v1" in text and chance.random() < 0.05
            await asyncio.to_thread(site.kill_backends)

        await go_through(site, chance, cut_off)


async def test_on_redis(tmp_path: Path, redis_url: str) -> None:
    async with RedisSite(tmp_path, redis_url, **SETTINGS) as site:
        await go_through(site, seeded("flow redis"), stop)


async def stop(worker: Process) -> None:
    worker.signal(signal.SIGSTOP)


async def go_through(site: Site, chance: random.Random, freeze: Freeze) -> None:
    workers = [await started(site) for _ in range(3)]
    jobs = await site.add(
        *[limited.call(key, chance.random() / 50, chance.random() < 0.1) for key in KEYS for _ in range(40)]
    )
    lines = await site.add(
        *[step.call(line, number, chance.random() < 0.2) for number in range(8) for line in LINES]
    )
    async with site.app.batch(closing.call()) as batch:
        await batch.add(*[member.call(batch.id, number % 3) for number in range(40)])
    last = await site.app.get(batch.id)
    assert last is not None
    watching = asyncio.create_task(watch(site))
    trouble = asyncio.create_task(make_trouble(site, workers, chance, freeze))
    try:
        await site.finished(*jobs, *lines, last, within=50)
    finally:
        trouble.cancel()
        with suppress(asyncio.CancelledError):
            await trouble
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching
    await check_leases(site, jobs)
    await check_lines(site, lines)
    members = [await stored(site, job_id) async for job_id, _ in site.app.batches.jobs(batch.id)]
    await check_batch(site, members, last)
    await site.check([*jobs, *lines, *members])


async def started(site: Site) -> Process:
    worker = site.start("-m", "holdfast", "worker", f"{flow_program.__name__}:app")
    await worker.starts()
    return worker


async def stored(site: Site, job_id: str) -> Job[Any]:
    job = await site.app.get(job_id)
    assert job is not None
    return job


async def watch(site: Site) -> None:
    """Asks the store again and again how many are leased."""
    flow = site.app.client.session.flow
    while True:
        usages = await flow.usage([f"key:{key}" for key in KEYS])
        assert all(usage.running <= MOST for usage in usages), usages
        await asyncio.sleep(0.01)


async def make_trouble(site: Site, workers: list[Process], chance: random.Random, freeze: Freeze) -> None:
    while True:
        await asyncio.sleep(chance.uniform(0.1, 0.5))
        place = chance.randrange(len(workers))
        if chance.random() < 0.5:
            workers[place].kill()
            workers[place] = await started(site)
        else:
            await freeze(workers[place])
            try:
                await asyncio.sleep(chance.choice((0.3, 2.0)))
            finally:
                workers[place].signal(signal.SIGCONT)


async def check_leases(site: Site, jobs: Iterable[Job[Any]]) -> None:
    """By the store's time never more attempts of a key than allowed: each lasts from its token to its end."""
    changes: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for job, attempts in await histories(site, jobs):
        for attempt in attempts:
            changes[str(job.limit_key)] += [(attempt.token, 1), (micros(attempt), -1)]
    for key in KEYS:
        leased = most = 0
        for _, change in sorted(changes[key]):
            leased += change
            most = max(most, leased)
        assert (most, leased) == (MOST, 0), key


async def check_lines(site: Site, steps: Iterable[Job[Any]]) -> None:
    """Every step ended before the next was claimed for the first time."""
    lines: defaultdict[str, list[list[Attempt]]] = defaultdict(list)
    for job, attempts in await histories(site, steps):
        lines[str(job.sequence_key)].append(attempts)
    for line in lines.values():
        for earlier, later in pairwise(line):
            assert micros(earlier[-1]) <= later[0].token


async def check_batch(site: Site, members: list[Job[Any]], last: Job[Any]) -> None:
    info = await site.app.batches.get(last.id)
    # 40 jobs, of which a third adds one more and a third two.
    assert (info.total, info.pending, info.failed) == (79, 0, 0)
    attempts = await site.app.history(last.id)
    assert Counter(attempt.outcome.value for attempt in attempts)["success"] == 1
    for _, before in await histories(site, members):
        assert micros(before[-1]) <= attempts[0].token


async def histories(site: Site, jobs: Iterable[Job[Any]]) -> list[tuple[Job[Any], list[Attempt]]]:
    listed = list(jobs)
    found = await asyncio.gather(*(site.app.history(job.id) for job in listed))
    return list(zip(listed, found, strict=True))


def micros(attempt: Attempt) -> int:
    assert attempt.finished is not None
    return round(attempt.finished.timestamp() * 1_000_000)
