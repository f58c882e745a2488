import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast import (
    BlockingCallOnLoop,
    CancelAnswer,
    Holdfast,
    InvalidJob,
    Job,
    JobGone,
    NotOpen,
    StateConflict,
)
from holdfast.engine.ids import new_id


@pytest.fixture
def app() -> Iterator[Holdfast]:
    with Holdfast("memory://") as app:

        @app.task
        async def add(a: int, b: int = 2) -> int:
            return a + b

        yield app


def enqueue(app: Holdfast, *args: int) -> Job[int]:
    return app.tasks["add"].enqueue_sync(*args)


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "holdfast-sync"]


def test_blocking_code_enqueues_finds_and_steers(app: Holdfast) -> None:
    job = enqueue(app, 1)
    assert app.sync.get(job.id) == job
    assert [each.id for each in app.sync.find(queue="default")] == [job.id]
    assert app.sync.stats().queued == 1
    assert app.sync.edit(job.id, version=1, priority=3).priority == 3
    assert "No live worker" in str(app.sync.explain(job.id))
    assert app.sync.workers() == []
    assert app.sync.cancel(job.id) is CancelAnswer.CANCELLED
    assert app.sync.history(job.id) == []
    with pytest.raises(StateConflict):
        app.sync.replay(job.id)
    assert app.sync.delete(job.id)
    app.sync.queues.pause("q")
    assert [queue.paused for queue in app.sync.queues.list()] == [True]
    app.sync.queues.resume("q")
    assert app.sync.dlq.list() == []
    assert app.sync.dlq.replay() == app.sync.dlq.discard() == 0
    many = app.sync.enqueue_many([app.tasks["add"].call(1), app.tasks["add"].call(2)])
    assert len({each.id for each in many}) == 2


def test_errors_come_through_as_they_are(app: Holdfast) -> None:
    with pytest.raises(InvalidJob, match=r"arguments\.a"):
        app.tasks["add"].enqueue_sync("x")
    with pytest.raises(JobGone):
        app.sync.cancel(new_id())
    with pytest.raises(TimeoutError):
        app.sync.result(enqueue(app, 1), timeout=0.01)


def test_a_blocking_call_on_a_running_loop_names_the_call_to_await(app: Holdfast) -> None:
    job = enqueue(app, 1)
    calls: dict[str, Callable[[], Any]] = {
        "await add.enqueue(...)": lambda: enqueue(app, 1),
        "await app.get(...)": lambda: app.sync.get(job.id),
        "await app.queues.pause(...)": lambda: app.sync.queues.pause("q"),
        "await app.dlq.replay(...)": app.sync.dlq.replay,
        "await job.result(...)": lambda: app.sync.result(job),
        "async with app:": app.__enter__,
    }

    async def on_a_loop() -> None:
        for named, call in calls.items():
            with pytest.raises(BlockingCallOnLoop) as refusal:
                call()
            assert f"`{named}`" in str(refusal.value)

    asyncio.run(on_a_loop())


def test_one_thread_serves_all_callers_and_ends_with_the_block() -> None:
    before = threads()
    with Holdfast("memory://") as app:

        @app.task
        async def add(a: int, b: int = 2) -> int:
            return a + b

        assert threads() == before
        callers = [threading.Thread(target=enqueue, args=(app, number)) for number in range(8)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        assert app.sync.stats().queued == 8
        assert len(threads()) == len(before) + 1
    assert threads() == before


def test_the_blocking_face_can_be_used_again_after_it_was_closed(app: Holdfast) -> None:
    enqueue(app, 1)
    app.sync.close()
    app.sync.close()
    assert app.sync.stats().queued == 1


def test_a_result_is_given_to_blocking_code(app: Holdfast) -> None:
    job = enqueue(app, 40)

    async def work() -> None:
        await app.worker().run(until_idle=True)

    asyncio.run(work())
    assert app.sync.result(job, timeout=5) == 42


def test_a_job_from_the_blocking_face_can_be_awaited_where_the_application_is_open(app: Holdfast) -> None:
    job = enqueue(app, 40)

    async def elsewhere() -> None:
        with pytest.raises(NotOpen, match="async with app"):
            await job.result(timeout=1)
        async with app, app.worker():
            assert await job.result(timeout=5) == 42

    asyncio.run(elsewhere())


@pytest.mark.process
def test_a_forked_child_starts_its_own_thread(app: Holdfast) -> None:
    enqueue(app, 1)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        job = enqueue(app, 5)
        os.write(writer, f"{job.state} {len(threads())}".encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        assert stream.read() == "scheduled 1"
    assert os.waitpid(child, 0)[1] == 0
    assert enqueue(app, 2).state == "scheduled"
