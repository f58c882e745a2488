"""No space left on a PostgreSQL server: jobs are refused whole, and all goes on when there is space again."""

import asyncio
import os
import pwd
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import Call, Job, StoreFull
from tests.chaos import program
from tests.chaos.postgres_site import PostgresSite
from tests.chaos.test_full_disk import fill
from tests.chaos.waiting import until
from tests.servers.postgres import Postgres
from tests.servers.run import Run

pytestmark = pytest.mark.process

BATCH = 300
MOST = 200

# Where no file system may be mounted, the server says so without being full.
TRAP = """
    CREATE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'no space left on device' USING ERRCODE = 'disk_full'; END $$;
    CREATE TRIGGER no_space BEFORE INSERT ON holdfast.job FOR EACH ROW EXECUTE FUNCTION no_space();
    CREATE TRIGGER no_space BEFORE INSERT ON holdfast.done FOR EACH ROW EXECUTE FUNCTION no_space();
"""


class Space:
    """A database that can be made full."""

    def __init__(self, server: Postgres, disk: Path | None) -> None:
        self.url = server.url.replace("/postgres", "/small").replace("//small", "//postgres")
        self._server = server
        self._disk = disk
        self._filler: Path | None = None
        if disk is not None:
            server.execute(f"CREATE TABLESPACE small LOCATION '{disk}'")
        server.execute(f"CREATE DATABASE small {'TABLESPACE small' if disk else ''}")

    def take(self, site: PostgresSite) -> None:
        if self._disk is None:
            for sql in TRAP.split(";\n"):
                site.query(sql)
        else:
            self._filler = fill(self._disk)

    def give(self, site: PostgresSite) -> None:
        if self._filler is None:
            site.query("DROP FUNCTION no_space() CASCADE")
        else:
            self._filler.unlink()


@contextmanager
def small_disk(run: Run) -> Iterator[Path | None]:
    """A file system of some megabytes for the servers' account; None where none can be mounted."""
    folder = run.new_folder("disk")
    command = ["mount", "-t", "tmpfs", "-o", f"size={32 << 20}", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        yield None
        return
    try:
        os.chown(folder, pwd.getpwnam(run.account).pw_uid, -1)
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


async def test_a_full_disk_refuses_jobs_whole_and_workers_recover_from_it(
    tmp_path: Path, servers: Run, private_postgres: Postgres
) -> None:
    with small_disk(servers) as disk:
        space = await asyncio.to_thread(Space, private_postgres, disk)
        async with PostgresSite(tmp_path, space.url, lease_seconds=20, poll_seconds=0.5) as site:
            [worker] = await site.workers(1)
            waiting = await site.add(*[program.wait_for.call("gate") for _ in range(5)])
            for job in waiting:
                await site.began(job)
            await asyncio.to_thread(space.take, site)
            stored = await add_until_refused(site)
            counted = await count(site)
            assert counted == len(waiting) + len(stored), "the last batch was refused whole"
            site.open_gate("gate")
            await until(lambda: len(site.effects("ended")), "all have ended", len(waiting).__eq__)
            await asyncio.to_thread(space.give, site)
            more = await site.add(program.work.call())
            await site.finished(*waiting, *more)
            assert await count(site) == counted + 1
            await site.check([*waiting, *more])
            for job in waiting:
                assert await site.outcomes(job) == ["success"]
            assert worker.code is None


async def add_until_refused(site: PostgresSite) -> list[Job[Any]]:
    """Adds jobs for later, many at a time; those that there was space for."""
    later: Callable[[], Call] = program.work.using(delay=3600).call
    stored: list[Job[Any]] = []
    try:
        for _ in range(MOST):
            stored += await site.add(*[later() for _ in range(BATCH)])
    except StoreFull:
        return stored
    raise AssertionError("there was space for all")


async def count(site: PostgresSite) -> int:
    return sum((await site.app.stats()).by_state.values())
