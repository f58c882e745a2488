"""Schedules whose leader is killed, frozen and woken: every due time is fired once, none is left out."""

import re
import signal
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast import Job, ScheduleInfo, every
from tests.chaos import program
from tests.chaos.harness import Site
from tests.chaos.postgres_site import PostgresSite
from tests.chaos.process import Process
from tests.chaos.redis_site import RedisSite
from tests.chaos.test_clocks import SHIFTS, assert_wrong, wrong
from tests.chaos.waiting import until, until_async

pytestmark = pytest.mark.process

LEASE = 2.0
_TERM = re.compile(r'event="leader elected" .*?term=(\d+)')

Make = Callable[..., Site]


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def make_site(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    def make(**settings: float) -> Site:
        known: dict[str, object] = {"leader_candidate": True, "leader_lease_seconds": LEASE, **settings}
        if request.param == "postgres":
            return PostgresSite(tmp_path, request.getfixturevalue("postgres_database"), **known)  # type: ignore[arg-type]
        if request.param == "redis":
            return RedisSite(tmp_path, request.getfixturevalue("redis_url"), **known)  # type: ignore[arg-type]
        return Site(tmp_path, **known)  # type: ignore[arg-type]

    return make


def term(worker: Process) -> int:
    """The last term that it began, by its own word."""
    return max(map(int, _TERM.findall(worker.output)), default=0)


async def next_leader(workers: list[Process], before: int) -> Process:
    """Waits until one leads with a later term than that."""
    found = await until(
        lambda: [worker for worker in workers if term(worker) > before],
        "another leads",
        bool,
        show=lambda: "".join(worker.output for worker in workers),
    )
    return max(found, key=term)


async def fired(site: Site) -> list[Job[int]]:
    """All that the schedule has fired, oldest first."""
    return sorted(await site.app.find(limit=1_000), key=lambda job: job.due)


async def flows(site: Site) -> None:
    before = len(await fired(site))
    await until_async(
        lambda: fired(site), "it is fired again", lambda now: len(now) >= before + 2, show=site.printed
    )


async def test_every_due_time_is_fired_once_whatever_becomes_of_the_leader(make_site: Make) -> None:
    async with make_site(lease_seconds=10, poll_seconds=0.5) as site:
        put = await site.app.schedules.put(
            "beat", every(1), program.work.call(), overlap="allow", misfire="all"
        )
        workers = [site.worker() for _ in range(3)]
        leader = await next_leader(workers, 0)
        await flows(site)

        first = term(leader)
        leader.kill()
        workers.remove(leader)
        leader = await next_leader(workers, first)
        await flows(site)

        second = term(leader)
        await freeze(site, leader)
        [other] = [worker for worker in workers if worker is not leader]
        await next_leader([other], second)
        leader.signal(signal.SIGCONT)
        await flows(site)

        other.signal(signal.SIGTERM)
        assert await other.ends() == 0
        await next_leader([leader], term(other))
        await flows(site)

        last = await site.app.schedules.pause("beat")
        await check(site, put, last)


async def freeze(site: Site, worker: Process) -> None:
    if isinstance(site, PostgresSite | RedisSite):
        worker.signal(signal.SIGSTOP)
    else:
        await site.freeze(worker)


async def check(site: Site, put: ScheduleInfo, last: ScheduleInfo) -> None:
    """One job for each due time from the first to the last, each with one success."""
    assert put.next_due is not None
    assert last.last_due is not None
    jobs = await fired(site)
    seconds = round((last.last_due - put.next_due).total_seconds())
    assert [(job.due - put.next_due).total_seconds() for job in jobs] == list(range(seconds + 1))
    assert last.missed == last.skipped == 0
    done = await site.finished(*jobs)
    await site.check(done)
    runs = Counter(effect.job for effect in site.effects("ended"))
    assert set(runs) == {job.id for job in jobs}


async def test_a_leader_that_resigns_is_followed_at_once(make_site: Make) -> None:
    async with make_site(leader_lease_seconds=600) as site:
        workers = [site.worker() for _ in range(2)]
        leader = await next_leader(workers, 0)
        [other] = [worker for worker in workers if worker is not leader]
        await other.starts()
        leader.signal(signal.SIGTERM)
        assert await leader.ends() == 0
        assert await next_leader([other], term(leader)) is other


async def test_leaders_whose_clocks_are_wrong_by_an_hour_fire_in_time(make_site: Make) -> None:
    async with make_site(lease_seconds=10, poll_seconds=0.5) as site:
        put = await site.app.schedules.put(
            "beat", every(1), program.work.call(), overlap="allow", misfire="all"
        )
        right = site.worker(HOLDFAST_LEADER_CANDIDATE="false")
        workers = [site.worker(**wrong(*each)) for each in SHIFTS]
        for worker in (right, *workers):
            await worker.starts()
        assert_wrong([right, *workers])
        before = 0
        for left in range(len(workers), 0, -1):
            leader = await next_leader(workers, before)
            await flows(site)
            before = term(leader)
            if left > 1:
                leader.kill()
                workers.remove(leader)
        last = await site.app.schedules.pause("beat")
        await check(site, put, last)
        for job in await fired(site):
            assert job.started is not None
            assert timedelta() <= job.started - job.due < timedelta(minutes=1)
