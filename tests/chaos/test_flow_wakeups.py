"""What one process frees runs soon in another, though neither asks by the clock."""

import time
from functools import partial
from pathlib import Path

import pytest

from holdfast.model.overrides import Overrides
from tests.chaos import program
from tests.chaos.harness import Site
from tests.chaos.postgres_site import PostgresSite
from tests.chaos.redis_site import RedisSite
from tests.chaos.waiting import until_async

pytestmark = pytest.mark.process

SETTINGS = Overrides(poll_seconds=60.0, lease_seconds=30.0, leader_candidate=False)
SOON = 2.0


async def test_on_sqlite(tmp_path: Path) -> None:
    async with Site(tmp_path, **SETTINGS) as site:
        await free_across_processes(site)


async def test_on_postgres(tmp_path: Path, postgres_database: str) -> None:
    async with PostgresSite(tmp_path, postgres_database, **SETTINGS) as site:
        await free_across_processes(site)


async def test_on_redis(tmp_path: Path, redis_url: str) -> None:
    async with RedisSite(tmp_path, redis_url, **SETTINGS) as site:
        await free_across_processes(site)


async def free_across_processes(site: Site) -> None:
    for queue in ("left", "right"):
        worker = site.start("-m", "holdfast", "worker", f"{program.__name__}:app", "--queue", queue)
        await worker.starts()
    await site.app.limits.set(key="k", concurrency=1)
    left, right = program.wait_for.using(queue="left"), program.work.using(queue="right")
    [first, in_line, keyed] = await site.add(
        left.call("gate-1"),
        left.using(sequence_key="s").call("gate-2"),
        left.using(limit_key="k").call("gate-3"),
    )
    for each in (first, in_line, keyed):
        await site.began(each)
    second, next_in_line, next_keyed = await site.add(
        right.using(after=[first]).call(),
        right.using(sequence_key="s").call(),
        right.using(limit_key="k").call(),
    )
    async with site.app.batch(right.call()) as batch:
        [member] = await batch.add(left.call("gate-4"))
    closing = await site.app.get(batch.id)
    assert closing is not None
    pairs = [(first, second), (in_line, next_in_line), (keyed, next_keyed), (member, closing)]
    await site.began(member)
    for waiting in (next_in_line, next_keyed):
        await until_async(partial(site.stored, waiting), "it was looked at", lambda job: job.parked)
    for number, (_, later) in enumerate(pairs, 1):
        assert site.effects("began", later) == []
        opened = time.monotonic()
        site.open_gate(f"gate-{number}")
        await site.finished(later)
        assert time.monotonic() - opened < SOON, later
