"""Redis that crashes, or whose replica takes its place: what is kept, and what is lost with it."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.chaos.redis_site import RedisSite
from tests.durability.failover import SETTINGS, Fault, endure, now
from tests.durability.options import Options
from tests.durability.tally import Line, Tally
from tests.durability.trials import lines
from tests.redis.soundness import check_sound
from tests.servers.redis import Redis
from tests.servers.redis_binaries import find_redis
from tests.servers.redis_sentinel import RedisSentinel
from tests.servers.run import Run

BEHIND = 0.5
"""Seconds for which a replica has received nothing when the master is lost."""


class Case(NamedTuple):
    """A fault: of one server with this `appendfsync`, or of a master that a replica follows."""

    name: str
    fault: str
    fsync: str = ""
    cut_off: float = 0.0
    keeps: bool | None = True


CASES = (
    Case("crash-always", "kill -9 and restart, appendfsync always", fsync="always"),
    Case("crash-everysec", "kill -9 and restart, appendfsync everysec", fsync="everysec", keeps=None),
    Case("failover", "failover to a replica", keeps=None),
    Case("failover-behind", f"the same, {BEHIND:g} s after it was cut off", cut_off=BEHIND, keeps=False),
)


async def try_once(run: Run, folder: Path, case: Case, tally: Tally) -> None:
    """One trial of the case, with servers of its own."""
    program = find_redis(run)
    if case.fsync:
        server = await asyncio.to_thread(
            lambda: Redis.make(run, program, "durable", appendonly="yes", appendfsync=case.fsync)
        )
        try:
            await put_to_the_test(folder, server.url, crash(server), case, tally)
            check_sound(server.url)
        finally:
            await asyncio.to_thread(server.remove)
    else:
        group = await asyncio.to_thread(RedisSentinel, run, program)
        try:
            await put_to_the_test(folder, group.url, fail_over(group, case.cut_off), case, tally)
            check_sound(group.master.url)
        finally:
            await asyncio.to_thread(group.remove)


async def put_to_the_test(folder: Path, url: str, fault: Fault, case: Case, tally: Tally) -> None:
    async with RedisSite(folder, f"{url}?timeout=1", **SETTINGS) as site:
        await endure(site, fault, tally, case.fault)


def crash(server: Redis) -> Fault:
    def fault() -> int:
        lost_at = now()
        server.kill()
        server.start()
        return lost_at

    return fault


def fail_over(group: RedisSentinel, cut_off: float) -> Fault:
    def fault() -> int:
        master, replica = group.servers
        if cut_off:
            replica.freeze()
            master.execute("CLIENT", "KILL", "TYPE", "replica")
            time.sleep(cut_off)  # blocks on purpose: so long programs go on without the replica
        lost_at = now()
        master.kill()
        if cut_off:
            replica.thaw()
        group.wait_for_master(master)
        return lost_at

    return fault


def measure(options: Options) -> Iterator[Line]:
    return lines("Redis", CASES, try_once, options)
