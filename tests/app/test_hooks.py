import asyncio

import pytest

from holdfast import Holdfast


@pytest.fixture
def app() -> Holdfast:
    return Holdfast("memory://")


async def test_hooks_run_around_the_jobs_of_a_worker(app: Holdfast) -> None:
    seen: list[str] = []

    @app.on_startup
    def first() -> None:
        seen.append("first")

    @app.on_startup
    async def second() -> None:
        await asyncio.sleep(0)
        seen.append("second")

    @app.on_shutdown
    def last() -> None:
        seen.append("last")

    @app.on_shutdown
    async def before_last() -> None:
        await asyncio.sleep(0)
        seen.append("before last")

    @app.task
    async def work() -> None:
        seen.append("work")

    async with app:
        await work.enqueue()
    await app.worker().run(until_idle=True)
    assert seen == ["first", "second", "work", "before last", "last"]


async def test_a_hook_that_fails_stops_the_start_and_leaves_nothing_open(app: Holdfast) -> None:
    @app.on_startup
    async def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await app.worker().run(until_idle=True)
    assert app.configured(concurrency=3).settings.concurrency == 3


async def test_handlers_enqueue_without_opening_the_application(app: Holdfast) -> None:
    @app.task
    async def child(number: int) -> int:
        return number

    @app.task
    async def parent() -> str:
        return (await child.enqueue(5)).id

    async with app:
        job = await parent.enqueue()
    await app.worker().run(until_idle=True)
    async with app:
        found = await app.get(await job.result(timeout=10))
        assert found is not None
        assert await found.result(timeout=10) == 5


async def test_blocking_handlers_enqueue_too(app: Holdfast) -> None:
    @app.task
    def child(number: int) -> int:
        return number

    @app.task
    def parent() -> str:
        return child.enqueue_sync(5).id

    async with app:
        job = await parent.enqueue()
        await app.worker().run(until_idle=True)
        found = await app.get(await job.result(timeout=10))
        assert found is not None
        assert await found.result(timeout=10) == 5
    await asyncio.to_thread(app.sync.close)
