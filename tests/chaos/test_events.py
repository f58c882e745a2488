"""Events whose consumers are killed, frozen and woken: none is lost, and SQL ledgers have each one once."""

import asyncio
import random
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.chaos import event_program
from tests.chaos.event_program import LOCK, READ, TABLE, named, produce, produce_in_process
from tests.chaos.harness import Site
from tests.chaos.postgres_site import PostgresSite
from tests.chaos.process import Process
from tests.chaos.redis_site import RedisSite
from tests.chaos.waiting import until, until_async

pytestmark = pytest.mark.process

LEASE = 1.0
AGGREGATES = "abcde"
ROUNDS = 25
"""So often each way of emitting is taken; every round has two events for each aggregate that it is about."""
BLOWS = 8
Entry = tuple[str, str, int]


class Emitting:
    """Emits in every way that a store has, and knows what was committed."""

    def __init__(self, site: Site, join: Callable[[], Any] | None) -> None:
        self._site = site
        self._join = join
        self._count = 0
        self.committed: set[str] = set()

    async def run(self, draw: random.Random) -> None:
        ways = [self._by_job, self._by_app]
        if self._join is not None:
            ways += [self._joined, self._undone]
        for _ in range(ROUNDS):
            for way in draw.sample(ways, len(ways)):
                await way(self._names(draw))
            await asyncio.sleep(draw.uniform(0, 0.1))

    def _names(self, draw: random.Random) -> list[str]:
        self._count += 1
        return [
            f"{aggregate}-{self._count}-{part}" for aggregate in draw.sample(AGGREGATES, 2) for part in (6, 7)
        ]

    async def _by_job(self, names: list[str]) -> None:
        await self._site.add(produce.call(names))
        self.committed.update(names)

    async def _by_app(self, names: list[str]) -> None:
        await self._site.app.emit(*map(named, names))
        self.committed.update(names)

    async def _joined(self, names: list[str]) -> None:
        await asyncio.to_thread(self._in_transaction, names, "COMMIT")
        self.committed.update(names)

    async def _undone(self, names: list[str]) -> None:
        await asyncio.to_thread(self._in_transaction, names, "ROLLBACK")

    def _in_transaction(self, names: list[str], end: str) -> None:
        assert self._join is not None
        with closing(self._join()) as connection:
            connection.execute("BEGIN")
            self._site.app.emit_in_sync(connection, *map(named, names))
            connection.execute(end)


def start(site: Site) -> Process:
    return site.start("-m", "holdfast", "worker", f"{event_program.__name__}:app", "-c", "2")


async def consuming(site: Site, workers: list[Process]) -> Process | None:
    """The worker that has the group's lock, if it is one of these."""
    holder = await site.app.client.session.locks.holder(LOCK)
    owner = "" if holder is None else holder.owner
    return next((worker for worker in workers if f"-{worker.pid}-" in owner.replace(":", "-")), None)


async def under_blows(
    site: Site, emitting: Emitting, entries: Callable[[], list[Entry]], draw: random.Random
) -> list[Entry]:
    """What stands in the ledger at the end; meanwhile whoever consumes is killed or frozen."""
    workers = [start(site) for _ in range(3)]
    emission = asyncio.create_task(emitting.run(draw))
    hits = 0
    for blow in range(BLOWS):
        some = len(entries()) + draw.randrange(1, 12)
        await until(lambda: len(entries()), "it goes on", some.__le__, show=site.printed)
        busy = await consuming(site, workers)
        hits += busy is not None
        victim = busy or draw.choice(workers)
        if blow % 2:
            await freeze(site, victim)
            await asyncio.sleep(LEASE * draw.uniform(0.5, 1.5))
            victim.signal(signal.SIGCONT)
        else:
            victim.kill()
            workers = [start(site) if worker is victim else worker for worker in workers]
    await emission
    assert hits, "at least one blow met the one that consumes"
    wanted = emitting.committed
    await until(
        lambda: {name for name, _, _ in entries()},
        "all are entered",
        lambda found: found >= wanted,
        show=site.printed,
    )
    await until_async(site.app.events.groups, "nothing waits", lambda infos: infos[0].waiting == [])
    return entries()


async def freeze(site: Site, worker: Process) -> None:
    if isinstance(site, PostgresSite | RedisSite):
        worker.signal(signal.SIGSTOP)
    else:
        await site.freeze(worker)


def check_order(entries: list[Entry]) -> None:
    """By their first appearance, without a gap."""
    first = list(dict.fromkeys(entries))
    for aggregate in AGGREGATES:
        versions = [version for _, of, version in first if of == aggregate]
        assert versions == list(range(1, len(versions) + 1)), aggregate


@pytest.fixture(params=["sqlite", "postgresql", "redis"])
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def make_site(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> Callable[..., Site]:
    def make(**settings: Any) -> Site:
        known: dict[str, Any] = {
            "leader_candidate": False,
            "leader_lease_seconds": LEASE,
            "lost_limit": 1_000,
            "reclaim_seconds": 0.2,
            "poll_seconds": 0.2,
            **settings,
        }
        if kind == "postgresql":
            return PostgresSite(tmp_path, request.getfixturevalue("postgres_database"), **known)
        if kind == "redis":
            return RedisSite(tmp_path, request.getfixturevalue("redis_url"), **known)
        return Site(tmp_path, **known)

    return make


def opened(site: Site, kind: str) -> Callable[[], list[Entry]]:
    """Makes the ledger; gives what reads it."""
    if kind in TABLE:
        site.query(TABLE[kind])
        return lambda: [(name, of, version) for name, of, version in site.query(READ)]

    def read() -> list[Entry]:
        file = site.folder / "effects"
        lines = file.read_text(encoding="ascii").splitlines() if file.exists() else []
        return [(name, of, int(version)) for name, of, version in map(str.split, lines)]

    return read


def joining(site: Site, kind: str) -> Callable[[], Any] | None:
    """How users connect to the store's database, with no transaction open."""
    if kind == "sqlite":
        return lambda: sqlite3.connect(site.folder / "jobs.db", timeout=30, isolation_level=None)
    return (lambda: psycopg.connect(site.url, autocommit=True)) if kind == "postgresql" else None


async def test_no_committed_event_is_lost_and_ledgers_of_sql_stores_have_each_once(
    make_site: Callable[..., Site], kind: str
) -> None:
    async with make_site() as site:
        entries = opened(site, kind)
        emitting = Emitting(site, joining(site, kind))
        found = await under_blows(site, emitting, entries, random.Random(kind))
        names = [name for name, _, _ in found]
        assert set(names) == emitting.committed, "none is lost, and none is there that was rolled back"
        check_order(found)
        if kind in TABLE:
            assert len(names) == len(set(names)), "each has its effect once"


async def test_a_consumer_that_is_asked_to_end_is_followed_at_once(
    make_site: Callable[..., Site], kind: str
) -> None:
    async with make_site(leader_lease_seconds=600) as site:
        entries = opened(site, kind)
        workers = [start(site), start(site)]
        for worker in workers:
            await worker.starts()
        await site.app.emit(named("a-1"))
        await until(lambda: len(entries()), "the first is entered", show=site.printed)
        first = await consuming(site, workers)
        assert first is not None
        first.signal(signal.SIGTERM)
        assert await first.ends() == 0
        await site.app.emit(named("a-2"))
        await until(lambda: len(entries()), "the second is entered", (2).__eq__, show=site.printed)
        check_order(entries())


async def test_jobs_in_processes_of_their_own_emit_with_their_success_or_not_at_all(
    make_site: Callable[..., Site], kind: str
) -> None:
    async with make_site() as site:
        entries = opened(site, kind)
        start(site)
        await site.finished(*await site.add(produce_in_process.call(["a-1", "a-2"])))
        await until(lambda: len(entries()), "both are entered", (2).__le__, show=site.printed)
        assert [name for name, _, _ in entries()] == ["a-1", "a-2"], "those of the run that failed are not"
