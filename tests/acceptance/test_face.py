"""The public face, used as its description shows it, on both stores alike."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from holdfast import (
    BlockingCallOnLoop,
    Context,
    Exponential,
    Holdfast,
    Job,
    JobCancelled,
    JobFailed,
    JobGone,
    Never,
    NotInTransaction,
    ResultNotKept,
    Retry,
    State,
    Task,
    VersionConflict,
)

NOBODY = "0197b000-0000-7000-8000-000000000000"


@dataclass
class Shop:
    """An application with the tasks of the description, and what its handlers saw."""

    app: Holdfast
    add: Task[[int, int], int]
    report: Task[[date], None]
    fail: Task[[], None]
    hold: Task[[], None]
    forget: Task[[], None]
    seen: dict[str, object] = field(default_factory=dict)


@asynccontextmanager
async def shop(url: str) -> AsyncIterator[Shop]:
    app = Holdfast(url)
    seen: dict[str, object] = {}

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    @app.task(name="report", queue="slow", retry=Exponential(max_retries=5, base=0, jitter=0), timeout=60)
    def report(ctx: Context, day: date) -> None:
        if ctx.run == 1:
            raise Retry(after=0)
        ctx.progress(0.5, "half way")
        ctx.check()
        ctx.enqueue(add.call(1, 2))
        seen.update(
            job=ctx.job.id, run=ctx.run, token=ctx.token, key=ctx.key, cancelled=ctx.cancelled, day=day
        )

    @app.task(retry=Never())
    async def fail() -> None:
        raise ValueError("out of paper")

    @app.task
    async def hold() -> None:
        await asyncio.Event().wait()

    @app.task(keep_result=False)
    async def forget() -> int:
        return 1

    assert await add(1, 2) == 3
    async with app:
        yield Shop(app, add, report, fail, hold, forget, seen)


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"


async def test_a_job_shows_every_field_from_enqueue_to_success(url: str) -> None:
    async with shop(url) as it:
        job = await it.add.using(
            delay=0, at=None, priority=3, queue="q", key="order-42", key_ttl=3600, id=None, tags=["x"],
            retry=None, timeout=None, lease=None,
        ).enqueue(1, 2)  # fmt: skip
        assert (job.task, job.queue, job.state, job.priority, job.run) == ("add", "q", "scheduled", 3, 0)
        assert (job.failures, job.lost, job.version, job.token, job.worker) == (0, 0, 1, 0, None)
        assert (job.key, list(job.tags), job.started, job.finished) == ("order-42", ["x"], None, None)
        assert (job.reason, job.error) == (None, None)
        assert job.due >= job.created > datetime.now(UTC) - timedelta(hours=1)
        await it.app.worker(queues=["q"], concurrency=10).run(until_idle=True)
        assert await job.result(timeout=10) == 3
        done = await it.app.get(job.id)
        assert done is not None
        assert (done.state, done.run, done.id) == ("success", 1, job.id)
        assert done.started is not None
        assert done.finished is not None
        assert done.token > 0
        [attempt] = await it.app.history(job.id)
        assert (attempt.run, attempt.token, attempt.outcome, attempt.reason) == (
            1,
            done.token,
            "success",
            None,
        )
        assert attempt.worker
        assert attempt.started is not None
        assert attempt.finished is not None


async def test_a_handler_sees_its_context_and_its_retries_stand_in_history(url: str) -> None:
    async with shop(url) as it, it.app.worker():
        job = await it.report.enqueue(date(2026, 3, 1))
        await job.result(timeout=10)
        history = await it.app.history(job.id)
        assert [(each.run, each.outcome) for each in history] == [(1, "retry"), (2, "success")]
        assert history[0].token < history[1].token
        assert it.seen == {
            "job": job.id, "run": 2, "token": history[1].token, "key": job.id, "cancelled": False,
            "day": date(2026, 3, 1),
        }  # fmt: skip
        assert [each.task for each in await it.app.find(task="add")] == ["add"]


async def test_every_way_in_which_a_result_is_missing_has_its_error(url: str) -> None:
    async with shop(url) as it, it.app.worker():
        dead, held, forgotten = await it.fail.enqueue(), await it.hold.enqueue(), await it.forget.enqueue()
        with pytest.raises(JobFailed) as failed:
            await dead.result(timeout=10)
        assert failed.value.reason == "ValueError: out of paper"
        with pytest.raises(TimeoutError):
            await held.result(timeout=0.01)
        assert await it.app.cancel(held.id) in {"asked", "cancelled"}
        with pytest.raises(JobCancelled):
            await held.result(timeout=10)
        assert await it.app.cancel(dead.id) == "finished"
        with pytest.raises(ResultNotKept):
            await forgotten.result(timeout=10)
        assert await it.app.delete(dead.id)
        assert await it.app.get(dead.id) is None
        with pytest.raises(JobGone):
            await dead.result(timeout=10)


async def test_jobs_are_found_page_by_page_edited_paused_and_replayed(url: str) -> None:
    async with shop(url) as it:
        app = it.app
        many = await app.enqueue_many([it.add.using(tags=["t"], delay=60).call(each, 0) for each in range(5)])
        first = await app.find(tag="t", state="scheduled", queue="default", limit=3)
        rest = await app.find(tag="t", limit=3, cursor=first.cursor)
        assert {each.id for each in [*first, *rest]} == {each.id for each in many}
        assert rest.cursor is None
        edited = await app.edit(many[0].id, version=many[0].version, priority=1)
        assert (edited.priority, edited.version) == (1, many[0].version + 1)
        with pytest.raises(VersionConflict):
            await app.edit(many[0].id, version=many[0].version, priority=2)
        assert "not due before" in str(await app.explain(many[0].id))
        await app.queues.pause("default")
        waits: Job[None] = await it.fail.enqueue()
        await app.worker().run(until_idle=True)
        assert "paused" in (await app.explain(waits.id)).sentence
        await app.queues.resume("default")
        await app.worker().run(until_idle=True)
        stats = await app.stats()
        assert (stats.by_state[State.DLQ], stats.by_queue["default"].scheduled) == (1, 5)
        assert (stats.queued, stats.scheduled, stats.in_progress, stats.completed) == (0, 5, 0, 0)
        assert (stats.failed, stats.cancelled) == (1, 0)
        assert [each.id for each in await app.find(state="dlq", queue="default", limit=50)] == [waits.id]
        assert (await app.replay(waits.id, key="again")).key == "again"
        await app.worker().run(until_idle=True)
        assert await app.dlq.replay(queue="default") == 1
        assert (await app.get(NOBODY), await app.history(NOBODY)) == (None, [])


async def test_blocking_and_joining_calls_say_what_is_wrong(url: str, tmp_path: Path) -> None:
    async with shop(url) as it:
        with pytest.raises(BlockingCallOnLoop, match=r"await add\.enqueue"):
            it.add.enqueue_sync(1, 2)
        if url.startswith("sqlite"):
            connection = sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)
            with pytest.raises(NotInTransaction):
                await it.add.enqueue_in(connection, 1, 2)
            connection.execute("BEGIN IMMEDIATE")
            undone = await it.add.enqueue_in(connection, 1, 2)
            connection.execute("ROLLBACK")
            connection.execute("BEGIN IMMEDIATE")
            done = it.add.enqueue_in_sync(connection, 1, 2)
            connection.execute("COMMIT")
            connection.close()
            assert await it.app.get(undone.id) is None
            assert await it.app.get(done.id) is not None
