"""What commits with the completion happens once for each completed job, wherever its workers are killed."""

import asyncio
import gc
import random
import signal
import sqlite3
import threading
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from tests.chaos import program
from tests.chaos.harness import Site
from tests.chaos.waiting import until, until_async

pytestmark = pytest.mark.process

JOBS = 60
KILLS = 8
TRANSACTION = "holdfast-transaction"


async def test_a_ledger_has_one_row_for_each_job_though_workers_are_killed_at_random(tmp_path: Path) -> None:
    draw = random.Random(60)
    async with Site(tmp_path, lease_seconds=1, reclaim_seconds=0.1, lost_limit=1_000) as site:
        site.query("CREATE TABLE ledger (job TEXT NOT NULL, token INTEGER NOT NULL)")
        ways = (program.pay, program.pay_blocking, program.pay_by_own_connection)
        jobs = await site.add(*[way.call() for way in ways for _ in range(JOBS)])
        workers = await site.workers(2, "-c", "4")
        for _ in range(KILLS):
            before = len(site.effects("began"))
            some = before + draw.randrange(1, 8)
            await until(lambda: len(site.effects("began")), "some begin", some.__le__, show=site.printed)
            draw.choice(workers).kill()
            workers = [worker if worker.code is None else site.worker("-c", "4") for worker in workers]
        await until_async(
            site.app.stats, "all are done", lambda stats: stats.completed == len(jobs), show=site.printed
        )
        rows = site.query("SELECT job, token FROM ledger ORDER BY job")
        done = [await site.stored(job) for job in jobs]
        assert rows == sorted((job.id, job.token) for job in done), "one row each, of the recorded attempt"
        outcomes = [await site.outcomes(job) for job in jobs]
        assert all(each.count("success") == 1 for each in outcomes)
        assert max(map(len, outcomes)) > 1, "some were cut short"


async def test_an_attempt_that_was_superseded_commits_nothing(tmp_path: Path) -> None:
    async with Site(tmp_path, lease_seconds=2.5, heartbeat_seconds=0.25, reclaim_seconds=0.2) as site:
        site.query("CREATE TABLE ledger (job TEXT NOT NULL, token INTEGER NOT NULL)")
        [frozen] = await site.workers(1)
        jobs = await site.add(program.pay_blocking.call("gate"), program.pay_by_own_connection.call("gate"))
        for job in jobs:
            await site.began(job)
        await site.freeze(frozen)
        site.worker()
        done = await site.finished(*jobs)
        rows = site.query("SELECT job, token FROM ledger ORDER BY job")
        assert rows == sorted((job.id, job.token) for job in done)
        site.open_gate("gate")
        frozen.signal(signal.SIGCONT)
        for job in jobs:
            await until_async(partial(site.outcomes, job), "the late end", ["superseded", "success"].__eq__)
        assert site.query("SELECT job, token FROM ledger ORDER BY job") == rows
        assert len(site.effects("ended")) == len(jobs)


async def test_a_job_that_joined_a_transaction_shares_its_fate(tmp_path: Path) -> None:
    async with Site(tmp_path) as site:
        await site.workers(1)
        program.app.configured(store=site.url)
        with closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            undone = program.work.enqueue_in_sync(connection)
            connection.execute("ROLLBACK")
            connection.execute("BEGIN IMMEDIATE")
            kept = program.work.enqueue_in_sync(connection)
            connection.execute("COMMIT")
        await site.finished(kept)
        await site.check([kept])
        assert await site.app.get(undone.id) is None
        assert site.effects("began", undone) == []


async def test_a_transaction_that_was_cancelled_before_it_began_leaves_no_lock(tmp_path: Path) -> None:
    async with Site(tmp_path) as site:
        transactions = site.app.store.transactions
        assert transactions is not None

        async def transact() -> None:
            async with transactions.begin():
                raise AssertionError("it must not begin")

        with closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            cut_off = [asyncio.create_task(transact()) for _ in range(3)]
            await until(lambda: names().count(TRANSACTION), "they wait for the lock", (3).__eq__)
            for task in cut_off:
                task.cancel()
            await asyncio.wait(cut_off, timeout=5)
            assert all(task.cancelled() for task in cut_off), "they do not wait for the lock any longer"
            connection.execute("ROLLBACK")
        await until(lambda: names().count(TRANSACTION), "their threads have ended", (0).__eq__)
        gc.disable()
        try:
            site.query("BEGIN IMMEDIATE")
        finally:
            gc.enable()


def names() -> list[str]:
    return [thread.name.rpartition("_")[0] for thread in threading.enumerate()]
