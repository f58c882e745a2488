"""Idle workers on Redis: a new job costs one of them a tick or two and the others nothing."""

import re
import signal
import threading
from collections import Counter
from pathlib import Path

import pytest

from holdfast.model.lifecycle import State
from tests.chaos import program
from tests.chaos.process import Process
from tests.chaos.redis_site import Monitor, RedisSite
from tests.chaos.waiting import PATIENCE, until
from tests.redis.soundness import check_sound
from tests.servers.redis import execute

pytestmark = pytest.mark.process

WORKERS = 4
JOBS = 12
LINE = "{holdfast:default}:y:default"
_WORKER = re.compile(rb'"([A-Za-z0-9.-]+-\d+-[0-9a-f]{8})" "\d+" "[01]"')
"""In the arguments of a tick the worker stands before its seq and whether it is a repeat."""


class Ticks(Monitor):
    """Who has ticked."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._changed = threading.Condition()
        self._ends = 0
        self._seen: Counter[str] = Counter()

    def taken(self) -> Counter[str]:
        """How often each has ticked since this was last asked."""
        with self._changed:
            end = self._ends + 1
            execute(self._url, "ECHO", "until here")
            assert self._changed.wait_for(lambda: self._ends == end, PATIENCE)
            seen, self._seen = self._seen, Counter()
            return seen

    def _watch(self) -> None:
        for line in self._lines:
            with self._changed:
                if b'"until here"' in line:
                    self._ends += 1
                    self._changed.notify_all()
                elif b"EVAL" in line and (found := _WORKER.search(line)):
                    self._seen[found[1].decode()] += 1


def idle(url: str) -> set[str]:
    """Who stands in line."""
    return {worker.decode() for worker in execute(url, "ZRANGE", LINE, 0, -1)}


async def stand(site: RedisSite, count: int) -> None:
    """Waits until so many workers stand in line, and each hears what is handed to it."""

    def listening() -> int:
        ears = execute(site.url, "PUBSUB", "CHANNELS", "{holdfast:default}:ear:*")
        return min(len(ears), len(idle(site.url)))

    await until(listening, f"{count} stand in line", count.__eq__, show=site.printed)


def named(workers: list[Process], name: str) -> Process:
    [found] = [worker for worker in workers if f"-{worker.pid}-" in name]
    return found


async def test_each_new_job_is_told_to_one_idle_worker_and_no_other_asks(
    tmp_path: Path, redis_url: str
) -> None:
    async with RedisSite(tmp_path, redis_url, poll_seconds=600, lease_seconds=600) as site:
        await site.workers(WORKERS)
        await stand(site, WORKERS)
        # Whoever has just begun to listen looks once for what it may have missed.
        first = await site.add(program.work.call())
        await site.finished(*first)
        await stand(site, WORKERS)
        jobs = list(first)
        served: Counter[str] = Counter()
        with Ticks(redis_url) as ticks:
            for _ in range(JOBS):
                ticks.taken()
                added = await site.add(program.work.call())
                jobs += added
                await site.finished(*added)
                await stand(site, WORKERS)
                [(worker, count)] = ticks.taken().items()
                assert count <= 3, "it says that it has room for more, and what became of the job"
                served[worker] += 1
        assert len(served) == WORKERS, "the longest idle is the first"
        assert {tuple(outcomes) for outcomes in await site.check(jobs)} == {("success",)}
        assert check_sound(redis_url) == {State.SUCCESS: JOBS + 1}


async def test_a_worker_that_was_killed_in_line_keeps_no_job_waiting(tmp_path: Path, redis_url: str) -> None:
    async with RedisSite(tmp_path, redis_url, poll_seconds=600, lease_seconds=600) as site:
        workers = await site.workers(3)
        await stand(site, 3)
        [oldest, *_] = execute(redis_url, "ZRANGE", LINE, 0, -1)
        ears = len(execute(redis_url, "PUBSUB", "CHANNELS"))
        named(workers, oldest.decode()).kill()
        # Until the server has seen that the connection is closed, the worker is as good as alive to it.
        await until(lambda: len(execute(redis_url, "PUBSUB", "CHANNELS")), "it is missed", ears.__gt__)
        jobs = [job for _ in range(4) for job in await site.add(program.work.call())]
        await site.finished(*jobs)
        assert {tuple(outcomes) for outcomes in await site.check(jobs)} == {("success",)}


async def test_a_worker_that_is_frozen_in_line_delays_one_job_by_its_lease(
    tmp_path: Path, redis_url: str
) -> None:
    async with RedisSite(tmp_path, redis_url, poll_seconds=600, lease_seconds=2, reclaim_seconds=0.2) as site:
        workers = await site.workers(2, "-c", "1")
        await stand(site, 2)
        oldest, _ = execute(redis_url, "ZRANGE", LINE, 0, -1)
        frozen = named(workers, oldest.decode())
        frozen.signal(signal.SIGSTOP)
        first, second = [job for _ in range(2) for job in await site.add(program.work.call())]
        await site.finished(second)
        assert (await site.stored(first)).state == "claimed", "it was handed to the frozen one"
        assert await site.finished(first, within=10 * site.lease)
        assert await site.outcomes(second) == ["success"]
        assert (await site.outcomes(first))[0] == "lost"
        frozen.signal(signal.SIGCONT)
        more = await site.add(*[program.work.call() for _ in range(10)])
        await site.finished(*more)
        await site.check([first, second, *more])


async def test_what_is_handed_to_a_worker_that_ends_goes_to_the_others(
    tmp_path: Path, redis_url: str
) -> None:
    async with RedisSite(tmp_path, redis_url, poll_seconds=600, lease_seconds=600) as site:
        workers = await site.workers(3)
        await stand(site, 3)
        jobs = []
        for worker in workers[:2]:
            worker.signal(signal.SIGTERM)
            for _ in range(5):
                jobs += await site.add(program.work.call())
            assert await worker.ends() == 0
        await site.finished(*jobs)
        outcomes = await site.check(jobs)
        assert {last for *_, last in outcomes} == {"success"}
        assert "lost" not in {each for attempts in outcomes for each in attempts}
        assert len(await site.app.workers()) == 1
        await until(lambda: execute(redis_url, "HLEN", "{holdfast:default}:y"), "it is idle", (1).__eq__)
