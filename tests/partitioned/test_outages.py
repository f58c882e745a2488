"""A partition is ended, frozen and started again under load: the others go on, and nothing is lost."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import Any, Self

import pytest

from holdfast import Job, OutcomeUnknown
from holdfast.engine.ids import new_id
from holdfast.model.errors import StoreUnavailable
from holdfast.model.partition import as_url, layout, parse
from holdfast.stores import open_store
from tests.chaos import program
from tests.chaos.harness import Site
from tests.chaos.load import check_unharmed
from tests.chaos.process import Process
from tests.chaos.waiting import PATIENCE, until
from tests.servers.postgres import Postgres
from tests.servers.redis import Redis

pytestmark = pytest.mark.process

SOON = 12.0
"""Seconds within which workers serve a partition again, once it is back: about two, more if busy."""

WINDOW = 2.0
"""For so many seconds the work of each partition is counted."""

LEAST = 0.6
"""What the other partitions do meanwhile, at least, compared with what they did before."""


class PartitionedSite(Site):
    """A site of several stores; queue `in-a` is in partition a, and so on."""

    def __init__(self, folder: Path, urls: Mapping[str, str], **settings: Any) -> None:
        rules = [(f"in-{name}", name) for name in urls]
        given: dict[str, Any] = {"lease_seconds": 30.0, "poll_seconds": 0.5, **settings}
        super().__init__(folder, url=as_url(layout(urls, queues=rules)), **given)
        self.layout = parse(self.url)

    async def __aenter__(self) -> Self:
        store = open_store(self.url)
        if store.migrations is not None:
            await store.migrations.apply()
        await store.close()
        return await super().__aenter__()

    def worker(self, *options: str, app: str = "tests.chaos.program:app", **environ: str) -> Process:
        queues = (f"--queue=in-{each.name}" for each in self.layout.partitions)
        return self.start("-m", "holdfast", "worker", app, *queues, *options, **environ)

    def ended(self, partition: str) -> int:
        return sum(self.layout.of_id(effect.job) == partition for effect in self.effects("ended"))

    async def rates(self, *partitions: str) -> dict[str, float]:
        """How many jobs of each end in a second."""
        before = {name: self.ended(name) for name in partitions}
        began = time.monotonic()
        await asyncio.sleep(WINDOW)
        passed = time.monotonic() - began
        return {name: (self.ended(name) - before[name]) / passed for name in partitions}


class PartitionLoad:
    """Jobs that are added to one partition all the time, each until that has said that it has it."""

    def __init__(self, site: PartitionedSite, name: str) -> None:
        self._site = site
        self.name = name
        self.jobs: list[Job[Any]] = []
        self._is_over = False

    @contextlib.asynccontextmanager
    async def going_on(self) -> AsyncGenerator[None]:
        adding = asyncio.create_task(self._add())
        try:
            yield
        finally:
            self._is_over = True
            await asyncio.wait_for(adding, PATIENCE)

    async def _add(self) -> None:
        while not self._is_over:
            # A key is a matter of its partition; an id of our own would be looked for in all of them.
            call = program.work.using(key=new_id(), queue=f"in-{self.name}").call()
            while True:
                try:
                    self.jobs += await self._site.add(call)
                    break
                except (OutcomeUnknown, StoreUnavailable):
                    await asyncio.sleep(0.05)
            await asyncio.sleep(0.01)

    async def flows(self, count: int = 5) -> None:
        """Waits until some more of its jobs are done."""
        before = self._site.ended(self.name)
        await until(
            lambda: self._site.ended(self.name),
            f"work goes on in {self.name}",
            lambda ended: ended >= before + count,
            show=self._site.printed,
        )


async def disturb(site: PartitionedSite, end: Callable[[], object], start: Callable[[], object]) -> None:
    """Ends partition b under load and starts it again, and looks at what that does to the others."""
    workers = await site.workers(2)
    [long] = await site.add(program.wait_for.using(queue="in-b").call("gate"))
    await site.began(long)
    loads = {name: PartitionLoad(site, name) for name in "abc"}
    async with contextlib.AsyncExitStack() as stack:
        for load in loads.values():
            await stack.enter_async_context(load.going_on())
        for load in loads.values():
            await load.flows()
        before = await site.rates("a", "c")
        await asyncio.to_thread(end)
        meanwhile = await site.rates("a", "c")
        await asyncio.to_thread(start)
        back = time.monotonic()
        await loads["b"].flows()
        assert time.monotonic() - back < SOON
        assert all(meanwhile[name] >= LEAST * before[name] for name in "ac"), (before, meanwhile)
    site.open_gate("gate")
    jobs = [long, *(job for load in loads.values() for job in load.jobs)]
    await site.finished(*jobs)
    await site.check(jobs)
    assert await site.outcomes(long) == ["success"], "the lease was kept"
    assert len({job.id for job in jobs}) == len(jobs)
    assert (await site.app.stats()).completed == len(jobs)
    check_unharmed(workers)


@pytest.mark.parametrize("way", ["stopped", "killed", "frozen"])
async def test_a_redis_server_goes_away_and_comes_back_and_the_others_go_on(
    tmp_path: Path, private_servers: dict[str, Redis], way: str
) -> None:
    for server in private_servers.values():
        await asyncio.to_thread(server.restart, appendonly="yes", appendfsync="everysec")
    urls = {name: f"{server.url}?timeout=0.5" for name, server in private_servers.items()}
    away = private_servers["b"]
    ends = {"stopped": away.stop, "killed": away.kill, "frozen": away.freeze}
    async with PartitionedSite(tmp_path, urls) as site:
        await disturb(site, ends[way], away.thaw if way == "frozen" else away.start)


@pytest.mark.parametrize("way", ["stopped", "killed", "frozen"])
async def test_a_postgresql_server_goes_away_and_comes_back_and_the_others_go_on(
    tmp_path: Path, private_postgreses: dict[str, Postgres], way: str
) -> None:
    urls = {name: f"{server.url}?timeout=2" for name, server in private_postgreses.items()}
    away = private_postgreses["b"]
    ends = {"stopped": away.stop, "killed": lambda: away.stop("immediate"), "frozen": away.freeze}
    async with PartitionedSite(tmp_path, urls) as site:
        await disturb(site, ends[way], away.thaw if way == "frozen" else away.start)


async def test_killed_workers_of_several_partitions_lose_nothing(
    tmp_path: Path, redis_urls: dict[str, str]
) -> None:
    async with PartitionedSite(tmp_path, redis_urls, lease_seconds=2.0, poll_seconds=0.2) as site:
        victim, other = await site.workers(2)
        loads = [PartitionLoad(site, name) for name in "abc"]
        async with contextlib.AsyncExitStack() as stack:
            for load in loads:
                await stack.enter_async_context(load.going_on())
            for load in loads:
                await load.flows()
            victim.kill()
            for load in loads:
                await load.flows(50)
        jobs = [job for load in loads for job in load.jobs]
        await site.finished(*jobs)
        await site.check(jobs)
        check_unharmed([other])
