"""PostgreSQL that crashes, or whose standby takes its place: what is kept, and what is lost with it."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.chaos.postgres_site import PostgresSite
from tests.durability.failover import SETTINGS, Fault, endure, now
from tests.durability.options import Options
from tests.durability.tally import Line, Tally
from tests.durability.trials import lines
from tests.servers.postgres import Postgres
from tests.servers.run import Run
from tests.servers.waiting import wait_until

BEHIND = 0.5
"""Seconds for which a standby has received nothing when the server is lost."""
IMPATIENT = 1
"""Seconds that programs wait for an answer."""
LONG = 4.0
"""Seconds in which they have lost patience, and asked again."""


class Case(NamedTuple):
    """A fault. `cut_off` is for how many seconds the standby receives nothing before; `keeps` as in Line."""

    name: str
    fault: str
    has_standby: bool = True
    is_synchronous: bool = False
    cut_off: float = 0.0
    keeps: bool | None = True


CASES = (
    Case("crash", "immediate stop and restart", has_standby=False),
    Case("async", "failover to an asynchronous standby", keeps=None),
    Case("async-behind", f"the same, {BEHIND:g} s after it was cut off", cut_off=BEHIND, keeps=False),
    Case("sync", "failover to a synchronous standby", is_synchronous=True),
    Case("sync-behind", f"the same, {BEHIND:g} s after it was cut off", is_synchronous=True, cut_off=BEHIND),
    Case("sync-waited", f"the same, {LONG:g} s after", is_synchronous=True, cut_off=LONG),
)


async def try_once(run: Run, folder: Path, case: Case, tally: Tally) -> None:
    """One trial of the case, with servers of its own."""
    first = await asyncio.to_thread(Postgres.make, run, "durable")
    try:
        if case.has_standby:
            standby = await asyncio.to_thread(first.make_standby)
            await asyncio.to_thread(be_synchronous if case.is_synchronous else leave, first)
            hosts = f"postgres@127.0.0.1:{first.port},127.0.0.1:{standby.port}"
            url = f"postgresql://{hosts}/postgres?target_session_attrs=read-write&timeout={IMPATIENT}"
            fault = fail_over(first, standby, case.cut_off)
        else:
            url, fault = first.url, crash(first)
        async with PostgresSite(folder, url, **SETTINGS) as site:
            await endure(site, fault, tally, case.fault)
    finally:
        await asyncio.to_thread(first.remove)


def leave(server: Postgres) -> None:
    """An asynchronous standby needs nothing."""


def be_synchronous(server: Postgres) -> None:
    """Lets every commit wait until the standby has it on its disk."""
    configure(server, "synchronous_standby_names", "*")
    wait_until(
        lambda: (
            server.execute("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'")[0][0] == 1
        ),
        "the standby is synchronous",
    )


def configure(server: Postgres, name: str, setting: str) -> None:
    server.execute(f"ALTER SYSTEM SET {name} = '{setting}'")
    server.execute("SELECT pg_reload_conf()")


def crash(server: Postgres) -> Fault:
    def fault() -> int:
        lost_at = now()
        server.restart("immediate")
        return lost_at

    return fault


def fail_over(first: Postgres, standby: Postgres, cut_off: float) -> Fault:
    def fault() -> int:
        if cut_off:
            configure(standby, "primary_conninfo", "host=127.0.0.1 port=1")
            wait_until(
                lambda: first.execute("SELECT count(*) FROM pg_stat_replication")[0][0] == 0, "it is cut off"
            )
            time.sleep(cut_off)  # blocks on purpose: so long programs go on without the standby
        lost_at = now()
        first.stop("immediate")
        standby.promote()
        return lost_at

    return fault


def measure(options: Options) -> Iterator[Line]:
    return lines("PostgreSQL", CASES, try_once, options)
