"""Processes that contend for a lock, are frozen for longer than its lease, and are killed."""

import asyncio
import random
import signal
import sqlite3
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast
from tests.chaos.harness import Site
from tests.chaos.lock_program import NAME, RESOURCE, SCHEMA, TTL, write
from tests.chaos.postgres_site import PostgresSite
from tests.chaos.process import Process
from tests.chaos.redis_site import LockAudit, RedisSite
from tests.chaos.waiting import until

pytestmark = pytest.mark.process

MICROS = round(TTL * 1_000_000)
PROCESSES = 4
ACCIDENTS = 6

HOLDER = """
    SELECT pid FROM written
    WHERE place > {} AND word = 'enter' AND place = (SELECT max(place) FROM written)
"""
AUDIT = "SELECT token, until FROM audit ORDER BY place"
SQLITE_AUDIT = """
    CREATE TABLE audit (place INTEGER PRIMARY KEY, token INTEGER, until INTEGER);
    CREATE TRIGGER audit_insert AFTER INSERT ON holdfast_lock
    BEGIN INSERT INTO audit (token, until) VALUES (new.token, new.until); END;
    CREATE TRIGGER audit_update AFTER UPDATE ON holdfast_lock
    BEGIN INSERT INTO audit (token, until) VALUES (new.token, new.until); END;
"""
POSTGRES_AUDIT = """
    CREATE TABLE audit (place bigint GENERATED ALWAYS AS IDENTITY, token bigint, until bigint);
    CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN INSERT INTO public.audit (token, until) VALUES (new.token, new.until); RETURN NULL; END $$;
    CREATE TRIGGER audit AFTER INSERT OR UPDATE ON holdfast.lock FOR EACH ROW EXECUTE FUNCTION audit();
"""

Audit = Callable[[], Sequence[tuple[int, int]]]
"""Tokens and ends of leases in the order of grants and renewals."""


class Scene:
    """A site whose store notes every grant and renewal, and a table that the lock protects."""

    def __init__(self, site: Site, freeze: Callable[[Process], Awaitable[None]], audit: Audit) -> None:
        self.site = site
        self.freeze = freeze
        self.audit = audit
        self.path = site.folder / RESOURCE
        with closing(sqlite3.connect(self.path)) as connection:
            connection.executescript(SCHEMA)

    def start(self, mode: str) -> Process:
        return self.site.start("-m", "tests.chaos.lock_program", mode, self.site.url)

    def rows(self, sql: str) -> list[Any]:
        with closing(sqlite3.connect(self.path, timeout=30)) as connection:
            return connection.execute(sql).fetchall()


@asynccontextmanager
async def on_sqlite(folder: Path) -> AsyncGenerator[Scene]:
    async with Site(folder) as site:
        with closing(sqlite3.connect(folder / "jobs.db")) as connection:
            connection.executescript(SQLITE_AUDIT)
        yield Scene(site, site.freeze, lambda: site.query(AUDIT))


@asynccontextmanager
async def on_postgres(folder: Path, url: str) -> AsyncGenerator[Scene]:
    async with PostgresSite(folder, url) as site:
        for statement in filter(str.strip, POSTGRES_AUDIT.split(";\n")):
            site.query(statement)
        yield Scene(site, freeze, lambda: site.query(AUDIT))


@asynccontextmanager
async def on_redis(folder: Path, url: str) -> AsyncGenerator[Scene]:
    async with RedisSite(folder, url) as site:
        with LockAudit(url, NAME) as audit:
            yield Scene(site, freeze, audit.taken)


async def freeze(process: Process) -> None:
    process.signal(signal.SIGSTOP)


async def disturb(scene: Scene, draw: random.Random) -> None:
    """Freezes holders for longer than their lease, and kills others; as many contend all the time."""
    processes = {process.pid: process for process in [scene.start("contend") for _ in range(PROCESSES)]}
    for process in processes.values():
        await process.says("ready")
    for _ in range(ACCIDENTS):
        [(done,)] = scene.rows("SELECT count(*) FROM written")
        [(pid,)] = await until(partial(scene.rows, HOLDER.format(done + 10)), "somebody holds it")
        victim = processes[pid]
        if draw.random() < 0.5:
            victim.kill()
            del processes[victim.pid]
            new = scene.start("contend")
            processes[new.pid] = new
        else:
            await scene.freeze(victim)
            await asyncio.sleep(1.5 * TTL)  # the lease and the places of the frozen one end meanwhile
            victim.signal(signal.SIGCONT)
    for process in processes.values():
        assert process.code is None, process.output
        process.kill()


def check(scene: Scene) -> None:
    """Mutual exclusion in store time, and accepted writes that never go backwards."""
    written = scene.rows("SELECT token, word FROM written ORDER BY place")
    tokens = [token for token, _ in written]
    assert tokens == sorted(tokens)
    leases: dict[int, list[int]] = defaultdict(list)
    for token, end in scene.audit():
        leases[token].append(end)
    assert list(leases) == sorted(leases), "tokens are given in their order"
    assert leases.keys() >= set(tokens)
    left = {token for token, word in written if word == "leave"}
    left |= {token for (token,) in scene.rows("SELECT token FROM given_up")}
    refused = {token for (token,) in scene.rows("SELECT token FROM refused")}
    expired = 0
    for earlier, later in pairwise(leases):
        # Only what was given back may be another's before its end.
        if earlier not in left or earlier in refused:
            expired += 1
            assert leases[later][0] - MICROS >= max(leases[earlier])
    assert expired > 0, "no accident has hit a holder"


@pytest.mark.timeout(120)
async def test_a_history_with_pauses_and_kills_on_sqlite(tmp_path: Path) -> None:
    async with on_sqlite(tmp_path) as scene:
        await disturb(scene, random.Random(1))
        check(scene)


@pytest.mark.timeout(120)
async def test_a_history_with_pauses_and_kills_on_postgresql(tmp_path: Path, postgres_database: str) -> None:
    async with on_postgres(tmp_path, postgres_database) as scene:
        await disturb(scene, random.Random(2))
        check(scene)


@pytest.mark.timeout(120)
async def test_a_history_with_pauses_and_kills_on_redis(tmp_path: Path, redis_url: str) -> None:
    async with on_redis(tmp_path, redis_url) as scene:
        await disturb(scene, random.Random(3))
        check(scene)


async def frozen_holder(scene: Scene, app: Holdfast) -> None:
    holder = scene.start("hold")
    await holder.says("held")
    await scene.freeze(holder)
    async with app.lock(NAME, wait=20) as grant:
        write(grant.token, "mine", scene.path)
        (scene.site.folder / "go").touch()
        holder.signal(signal.SIGCONT)
        await holder.says("refused")
        await holder.says("lost")
        assert await holder.ends() == 0
        assert not grant.lost
        assert await app.try_lock(NAME) is None, "the former holder's release has freed nothing"
        write(grant.token, "still mine", scene.path)
    assert [word for (word,) in scene.rows("SELECT word FROM written ORDER BY place")] == [
        "enter",
        "mine",
        "still mine",
    ]
    assert [word for (word,) in scene.rows("SELECT word FROM refused")] == ["late"]


async def test_a_holder_frozen_past_its_lease_is_refused_on_sqlite(tmp_path: Path) -> None:
    async with on_sqlite(tmp_path) as scene:
        await frozen_holder(scene, scene.site.app)


async def test_a_holder_frozen_past_its_lease_is_refused_on_postgresql(
    tmp_path: Path, postgres_database: str
) -> None:
    async with on_postgres(tmp_path, postgres_database) as scene:
        await frozen_holder(scene, scene.site.app)


async def test_a_holder_frozen_past_its_lease_is_refused_on_redis(tmp_path: Path, redis_url: str) -> None:
    async with on_redis(tmp_path, redis_url) as scene:
        await frozen_holder(scene, scene.site.app)
