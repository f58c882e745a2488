"""Handlers take locks wherever they run: in threads and in processes of their own."""

from pathlib import Path

import pytest

from tests.engine import lock_tasks as tasks

pytestmark = pytest.mark.process


async def test_handlers_in_threads_and_processes_share_the_locks_of_their_store(tmp_path: Path) -> None:
    app = tasks.app.configured(store=f"sqlite:///{tmp_path}/jobs.db", concurrency=6)
    async with app:
        calls = [task.call() for task in (tasks.blocking, tasks.awaiting, tasks.threaded) for _ in range(2)]
        async with app.lock("books") as grant:
            jobs = await app.enqueue_many(calls)
        assert await app.worker().run(until_idle=True) == 0
        tokens = [await job.result(timeout=10) for job in jobs]
    assert len(set(tokens)) == 6
    assert min(tokens) > grant.token
    app.sync.close()
