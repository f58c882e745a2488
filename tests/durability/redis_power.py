"""Power that fails while Redis writes its log: what a server finds that starts on what is left of it."""

import asyncio
import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import redis

from holdfast.model.timing import SECOND
from holdfast.stores.redis import RedisStore
from holdfast.stores.redis.address import parse
from tests.durability.acknowledged import Acknowledged
from tests.durability.aftermath import Aftermath, examine
from tests.durability.disk import Disk, Loss
from tests.durability.load import environ_of, run_under_load
from tests.durability.options import Options
from tests.durability.power import ANSWERS, fail_often
from tests.durability.program import app
from tests.durability.recording import Record, Recorder
from tests.durability.tally import Line, Tally
from tests.servers.ports import free_port
from tests.servers.redis import execute
from tests.servers.redis_binaries import find_redis
from tests.servers.run import OwnedRun
from tests.servers.waiting import wait_until

SHARE = 10
"""A server must be started for each point, so there are so many times fewer than of SQLite."""
LOSSES = (Loss.NOTHING, Loss.ALL, Loss.TAIL)
"""A log that lacks something in its middle is not read by Redis, until somebody repairs it."""


@contextmanager
def serving(program: Path, folder: Path, *settings: str, **environ: str) -> Iterator[str]:
    """A server on what is in the folder; its URL. It is killed in the end."""
    port = free_port()
    url = f"redis://127.0.0.1:{port}/0"
    told = [
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--dir",
        str(folder),
        "--save",
        "",
        "--appendonly",
        "yes",
    ]
    command = [str(program), *told, "--auto-aof-rewrite-percentage", "0", *settings]
    with (folder / "log").open("ab") as log:
        server = subprocess.Popen(command, env={**os.environ, **environ}, stdout=log, stderr=log)

    def is_ready() -> bool:
        assert server.poll() is None, (folder / "log").read_text(encoding="utf-8")
        with suppress(redis.ConnectionError):
            return not execute(url, "INFO", "persistence")["loading"]
        return False

    try:
        wait_until(is_ready, "the server has read its log")
        yield url
    finally:
        server.kill()
        server.wait()


def record(place: Path, program: Path, jobs: int, fsync: str) -> tuple[Disk, list[Record]]:
    """A disk with an empty log, and all that happens to it while jobs are added and done."""
    folder = (place / fsync).resolve()
    folder.mkdir()
    with serving(program, folder):
        pass
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "log"]
    disk = Disk({str(path.relative_to(folder)): path.read_bytes() for path in files})
    recorder = Recorder(place, folder)
    with serving(program, folder, "--appendfsync", fsync, **recorder.environ) as url:
        run_under_load(environ_of(url, folder / ANSWERS, recorder), jobs, signal.SIGKILL)
    return disk, [each for each in recorder.records() if each.name != "log"]


def lose_power(
    place: Path, program: Path, disk: Disk, records: Sequence[Record], points: int, seed: int
) -> Tally:
    def reopen(image: Path, known: Acknowledged, draw: random.Random) -> Aftermath:
        with serving(program, image) as url:
            return asyncio.run(_examine(url, known))

    return fail_often(place, records, points, seed, reopen, disk=disk, losses=LOSSES)


async def _examine(url: str, known: Acknowledged) -> Aftermath:
    passed = 0

    def clock() -> int:
        return time.time_ns() // 1_000 + passed

    def let_leases_end() -> None:
        nonlocal passed
        passed += round(app.settings.lease_seconds * SECOND)

    session = await RedisStore(parse(url), clock=clock).connect("default")
    try:
        return await examine(session, known, let_leases_end)
    finally:
        await session.close()


def measure(options: Options) -> Iterator[Line]:
    run = OwnedRun()
    try:
        program = find_redis(run)
        for fsync, keeps in (("always", True), ("everysec", False)):
            with tempfile.TemporaryDirectory(prefix="holdfast-durability-") as name:
                disk, records = record(Path(name), program, options.jobs, fsync)
                found = lose_power(Path(name), program, disk, records, options.points // SHARE, options.seed)
            yield Line(f"Redis, appendfsync {fsync}", "power is lost", found, keeps)
    finally:
        run.close()
