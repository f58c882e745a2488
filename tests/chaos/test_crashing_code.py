"""Handlers that end their process: the child alone, or the worker with all that ran beside it."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.chaos import program
from tests.chaos.harness import Site
from tests.chaos.process import Process
from tests.chaos.waiting import until, until_async

pytestmark = pytest.mark.process

MEMORY_GROUPS = Path("/sys/fs/cgroup/memory")


@pytest.fixture
def memory_group() -> Iterator[str | None]:
    """A group of processes that may use little memory; None where there are no such groups to be had."""
    group = MEMORY_GROUPS / f"holdfast-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(96 << 20), encoding="ascii")
    except OSError:
        yield None
        return
    yield str(group)
    group.rmdir()


async def test_a_child_that_dies_is_a_failed_attempt_and_its_worker_lives(
    tmp_path: Path, memory_group: str | None
) -> None:
    async with Site(tmp_path, lease_seconds=60) as site:
        [worker] = await site.workers(1)
        calls = [program.kill_child.call(how) for how in program.KINDS]
        jobs = await site.add(*calls, program.eat_memory.call(memory_group))
        others = await site.add(*[program.work.call() for _ in range(20)])
        done = await site.finished(*jobs)
        memory = "killed by SIGKILL" if memory_group else "MemoryError"
        ends = ["ended with exit code 9", "killed by SIGSEGV", "killed by SIGKILL", memory]
        for job, end in zip(done, ends, strict=True):
            assert job.reason is not None
            assert end in job.reason
            assert (job.state, job.failures, job.lost) == ("dlq", 2, 0)
            assert await site.outcomes(job) == ["retry", "failed"]
        await site.finished(*others)
        await site.check(others)
        assert worker.code is None


async def test_a_job_that_kills_its_workers_is_found_out_and_the_innocent_pass(tmp_path: Path) -> None:
    await asyncio.gather(*(find_out(tmp_path / how, how) for how in ("exit", "crash")))


async def find_out(folder: Path, how: str) -> None:
    async with Site(folder, lease_seconds=1, reclaim_seconds=0.2, lost_limit=3) as site, crew(site, size=2):
        innocent = await site.add(*[program.work.call(0.01) for _ in range(25)])
        [guilty] = await site.add(program.kill_worker.call(how))
        innocent += await site.add(*[program.work.call(0.4) for _ in range(5)])
        innocent += await site.add(*[program.work.call(0.01) for _ in range(20)])
        [dead] = await site.finished(guilty)
        await site.finished(*innocent)
        assert (dead.state, dead.reason, dead.lost, dead.failures) == ("dlq", "worker lost", 3, 0)
        assert dead.error == "3 workers were lost while they ran this job"
        assert set(await site.outcomes(guilty)) == {"lost"}
        assert 3 <= dead.run <= 4, "the first crash need not have been recorded as a start"
        await site.check(innocent)


async def test_jobs_of_a_crashed_worker_that_run_long_do_not_keep_others_from_running(tmp_path: Path) -> None:
    async with Site(tmp_path, lease_seconds=3, reclaim_seconds=0.2, lost_limit=2) as site:
        [crashed] = await site.workers(1, "-c", "8")
        suspects = await site.add(*[program.wait_for.call("gate") for _ in range(8)])
        await until_async(
            lambda: site.app.find(state="running", limit=10),
            "all are stored as running",
            lambda it: len(it) == 8,
        )
        crashed.kill()
        worker = site.worker("-c", "4")
        await until(lambda: len(site.effects("began")), "one runs again", (9).__eq__)
        others = await site.add(*[program.work.call() for _ in range(20)])
        await site.finished(*others)
        assert len(site.effects("began")) == 8 + 1 + 20, (
            "another loss would be their last: only one at a time"
        )
        site.open_gate("gate")
        await site.finished(*suspects)
        await site.check([*suspects, *others])
        assert worker.code is None


@asynccontextmanager
async def crew(site: Site, size: int) -> AsyncIterator[None]:
    """Workers, of which one that has died is replaced."""
    workers = [site.worker() for _ in range(size)]
    async with asyncio.TaskGroup() as group:
        keepers = [group.create_task(keep_up(site, worker)) for worker in workers]
        try:
            yield
        finally:
            for keeper in keepers:
                keeper.cancel()


async def keep_up(site: Site, worker: Process) -> None:
    while True:
        await worker.ends(within=60)
        worker = site.worker()
