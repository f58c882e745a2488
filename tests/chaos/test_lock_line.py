"""Who waits for a lock is woken by a release in another process, and only by that."""

import asyncio
import re
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.chaos.harness import Site
from tests.chaos.postgres_site import PostgresSite
from tests.chaos.process import Process
from tests.chaos.redis_site import RedisSite
from tests.chaos.waiting import until

pytestmark = pytest.mark.process

NAME = "invoice:42"
AGAIN = 5.0
"""Seconds after which one who was not woken asks again."""


def holder(site: Site, gate: str) -> Process:
    return site.start("-m", "tests.chaos.lock_holder", site.url, NAME, gate)


async def handover(site: Site) -> None:
    """A lock goes from one process to this one and on to a third, each time at once."""
    first = holder(site, "first")
    await first.says("held")
    waiting = asyncio.create_task(site.app.client.locks.acquire(NAME))
    await until(lambda: line(site), "it stands in line")
    third = holder(site, "third")
    await third.says("asks")
    site.open_gate("first")
    grant = await waiting
    taken = time.monotonic()
    await first.says("gives back")
    released = re.search(r"gives back at ([\d.]+)", first.output)
    assert released is not None
    assert taken - float(released[1]) < AGAIN / 2
    began = time.monotonic()
    await grant.release()
    await third.says("held")
    assert time.monotonic() - began < AGAIN / 2
    site.open_gate("third")
    assert await third.ends() == 0


def line(site: Site) -> Sequence[object]:
    if isinstance(site, RedisSite):
        return site.line(NAME)
    table = "holdfast.lock_line" if isinstance(site, PostgresSite) else "holdfast_lock_line"
    return site.query(f"SELECT owner FROM {table}")


async def test_on_sqlite(tmp_path: Path) -> None:
    async with Site(tmp_path) as site:
        await handover(site)


async def test_on_postgresql(tmp_path: Path, postgres_database: str) -> None:
    async with PostgresSite(tmp_path, postgres_database) as site:
        await handover(site)


async def test_on_redis(tmp_path: Path, redis_url: str) -> None:
    async with RedisSite(tmp_path, redis_url) as site:
        await handover(site)
