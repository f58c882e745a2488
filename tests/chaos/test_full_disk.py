"""No space left while workers run: what cannot be stored is refused whole, and all goes on later."""

import os
import resource
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast import Job, StoreFull, StoreUnavailable
from tests.chaos import program
from tests.chaos.harness import Site
from tests.chaos.process import Process
from tests.chaos.waiting import until_async

pytestmark = pytest.mark.process

SIZE = 4 << 20


@contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """A file system of a few megabytes in the folder; False where one may not mount any."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        yield False
        return
    try:
        yield True
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Takes all space that is left; the file that has it."""
    filler = folder / "filler"
    file = os.open(filler, os.O_WRONLY | os.O_CREAT)
    for size in (65_536, 512):
        try:
            while os.write(file, bytes(size)) == size:
                pass
        except OSError:
            continue
    os.close(file)
    return filler


async def test_a_full_disk_refuses_jobs_whole_and_workers_recover_from_it(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as is_small:
        if is_small:
            await go_without_space(tmp_path / "site", tmp_path / "disk", StoreFull)
        else:
            await go_without_space(tmp_path / "site", tmp_path / "disk", StoreUnavailable)


class Space:
    """The space that some processes have for the files of a folder: taken, and given back."""

    def __init__(self, folder: Path, worker: Process, *, is_disk: bool) -> None:
        self._folder = folder
        self._pids = [os.getpid(), worker.pid]
        self._filler: Path | None = None
        self._is_disk = is_disk
        self._limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def take(self) -> None:
        if self._is_disk:
            self._filler = fill(self._folder)
            return
        size = (self._folder / "jobs.db-wal").stat().st_size
        for pid in self._pids:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, self._limits[1]))

    def give_back(self) -> None:
        if self._filler is not None:
            self._filler.unlink()
            return
        for pid in self._pids:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, self._limits)


async def go_without_space(folder: Path, disk: Path, error: type[StoreUnavailable]) -> None:
    url = f"sqlite:///{disk / 'jobs.db'}"
    async with Site(folder, url=url, lease_seconds=1, reclaim_seconds=0.2, enqueue_timeout_seconds=2) as site:
        [worker] = await site.workers(1)
        jobs = await site.add(program.wait_for.call("gate"), *[program.work.call() for _ in range(20)])
        await site.finished(*jobs[1:])
        await site.began(jobs[0])
        space = Space(disk, worker, is_disk=error is StoreFull)
        space.take()
        try:
            # A checkpoint may make room in the log once more, so it is filled until nothing is left.
            refused = await until_async(
                lambda: enqueue_until(site, error, jobs),
                "the worker cannot write either",
                lambda _: "heartbeat failed" in worker.output,
                show=lambda: worker.output,
            )
            site.open_gate("gate")
            await worker.says("store unreachable")
            assert worker.code is None
        finally:
            space.give_back()
        assert await site.app.get(refused) is None, "it was refused whole"
        await worker.says("store reachable again")
        jobs += await site.add(program.work.using(id=refused).call())
        await site.finished(*jobs)
        await site.check(jobs)
        assert worker.code is None
        assert site.query("PRAGMA integrity_check") == [("ok",)]


async def enqueue_until(site: Site, error: type[StoreUnavailable], jobs: list[Job[object]]) -> str:
    """Enqueues until there is no space; the id that was refused. The others are added to the jobs."""
    while True:
        refused = str(uuid.uuid4())
        try:
            jobs += await site.add(program.work.using(id=refused).call())
        except error:
            return refused
