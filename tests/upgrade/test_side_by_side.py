"""This release and a newer one on one store, under load, while the newer one migrates it."""

import asyncio
import signal
from pathlib import Path

import pytest

from holdfast.stores.postgres import schema as postgres_schema
from holdfast.stores.sqlite import schema as sqlite_schema
from tests.chaos.harness import Site
from tests.chaos.postgres_site import PostgresSite
from tests.chaos.process import Process
from tests.chaos.redis_site import RedisSite
from tests.chaos.waiting import until
from tests.durability.acknowledged import SETTING, Acknowledged, read_all
from tests.durability.failover import SETTINGS, judge, settle
from tests.redis.soundness import check_sound
from tests.upgrade.builds import make_newer

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]

ENDLESS = "1000000"
PART = 60
"""So many jobs each release adds and does before the next thing happens."""


class Release:
    """Programs of one release: a producer and workers, which write down what they were told."""

    def __init__(self, site: Site, name: str, path: Path | None = None) -> None:
        self._site = site
        self.answers = site.folder / f"{name}-answers"
        self._environ = {SETTING: str(self.answers)} | ({"PYTHONPATH": str(path)} if path else {})

    def start(self) -> None:
        program = "tests.durability.program"
        self._producer = self._site.start("-m", program, "produce", ENDLESS, **self._environ)
        self._worker = self._site.start("-m", program, "work", **self._environ)

    def run(self, *words: str) -> Process:
        """A command of this release."""
        return self._site.start("-m", "holdfast", *words, **self._environ)

    @property
    def known(self) -> Acknowledged:
        return read_all(self.answers)

    async def flows(self) -> None:
        """Waits until its producer has added some more, and its workers have done some more."""
        before = self.known
        await until(
            lambda: (len(self.known.stored) - len(before.stored), len(self.known.done) - len(before.done)),
            "it adds and does some",
            lambda more: min(more) >= PART,
            within=60,
            show=self._site.printed,
        )

    async def stop_adding(self) -> None:
        self._producer.signal(signal.SIGTERM)
        await self._producer.ends()

    def kill(self) -> None:
        self._producer.kill()
        self._worker.kill()


async def upgrade_under_load(site: Site, *, migrates: bool) -> None:
    """Old ones work; new ones come, after a command if need be; old ones are killed and started again."""
    older, newer = Release(site, "older"), Release(site, "newer", make_newer(site.folder, breaks=False))
    older.start()
    await older.flows()
    if migrates:
        await migrate(newer)
    newer.start()
    await asyncio.gather(older.flows(), newer.flows())
    older.kill()
    older.start()
    await asyncio.gather(older.flows(), newer.flows())
    await asyncio.gather(older.stop_adding(), newer.stop_adding())
    assert await settle(site) == []
    await check(site, older, newer)


async def migrate(newer: Release) -> None:
    """Its worker is told what to do, and that is done."""
    refused = newer.run("worker", "tests.durability.program:app")
    assert await refused.ends() == 2
    [line] = refused.output.strip().splitlines()
    assert "_addition missing; run: holdfast migrate" in line
    assert await newer.run("migrate").ends() == 0


async def check(site: Site, *releases: Release) -> None:
    """Nothing that was acknowledged to either is lost or undone, and nothing was recorded twice."""
    known = read_all(*(release.answers for release in releases))
    found = await judge(site.url, known)
    assert found.missing == []
    assert found.is_consistent, found
    assert {len(done) for done in known.done.values()} == {1}
    assert known.claims.keys() >= known.done.keys()


async def test_a_file_is_migrated_by_the_first_new_program_while_old_ones_work(tmp_path: Path) -> None:
    async with Site(tmp_path, **SETTINGS) as site:
        await upgrade_under_load(site, migrates=False)
        assert site.query("SELECT max(version) FROM holdfast_schema") == [(sqlite_schema.CLIENT + 1,)]
        assert site.query("PRAGMA integrity_check") == [("ok",)]


async def test_a_database_is_migrated_while_old_programs_work(tmp_path: Path, postgres_database: str) -> None:
    async with PostgresSite(tmp_path, postgres_database, **SETTINGS) as site:
        await upgrade_under_load(site, migrates=True)
        assert site.query("SELECT max(version) FROM holdfast.schema") == [(postgres_schema.CLIENT + 1,)]


async def test_old_and_new_programs_work_side_by_side_on_redis(tmp_path: Path, redis_url: str) -> None:
    async with RedisSite(tmp_path, redis_url, **SETTINGS) as site:
        await upgrade_under_load(site, migrates=False)
        check_sound(redis_url)
