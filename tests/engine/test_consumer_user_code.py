"""User code that would end a consumer, or be taken for done: it is one failed attempt, and others go on."""

import asyncio
import functools
import threading
from typing import Any

from holdfast import Context, Event
from holdfast.engine.ids import new_id
from holdfast.model.errors import StoreUnavailable
from holdfast.model.subscription import subscribe
from tests.engine.consuming import GROUP, TOPIC, Desk
from tests.engine.rig import PATIENCE, Rig
from tests.engine.test_consumer_workers import Office


class Unshowable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


async def test_an_exception_that_cannot_be_shown_is_one_failed_attempt() -> None:
    async def handle(event: Event[str]) -> None:
        desk.told.append(event.data)
        if event.data == "a1":
            raise Unshowable

    desk = Desk(handler=handle)
    await desk.emit("a1", "b1")
    await desk.drain()
    assert desk.told == ["a1", "b1"]
    assert await desk.waiting() == [("a", 1, False)]
    assert "cannot be shown" in (await desk.info()).waiting[0].reason


async def test_a_handler_that_cancels_itself_is_one_failed_attempt() -> None:
    async def handle(event: Event[str]) -> None:
        desk.told.append(event.data)
        if event.data == "a1":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)

    desk = Desk(handler=handle)
    await desk.emit("a1", "b1")
    await desk.drain()
    assert desk.told == ["a1", "b1"]
    assert await desk.waiting() == [("a", 1, False)]


async def test_a_plain_wrapper_of_an_async_handler_is_a_failure_that_says_so() -> None:
    def traced(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any) -> Any:
            return function(*args)

        return wrapper

    @traced
    async def handle(event: Event[str]) -> None:
        raise AssertionError("nobody awaits it")

    desk = Desk(handler=handle)
    await desk.emit("a1")
    await desk.drain()
    assert await desk.waiting() == [("a", 1, False)]
    assert "returned a coroutine" in (await desk.info()).waiting[0].reason


async def test_a_skip_that_was_accepted_while_an_attempt_ran_is_heeded_though_that_failed() -> None:
    answers: list[int] = []

    async def handle(event: Event[str]) -> None:
        if event.data == "a1" and desk.told.count("a1") == 1:
            answers.append(await desk.events.skip(GROUP))
        await desk.handle(event)

    desk = Desk(handler=handle)
    desk.fails["a1"] = 99
    await desk.emit("a1", "a2")
    for _ in range(3):
        await desk.later()
    assert answers == [1]
    assert desk.done == ["a2"]


async def test_a_replay_that_was_accepted_during_the_last_attempt_is_heeded() -> None:
    answers: list[int] = []

    async def handle(event: Event[str]) -> None:
        if desk.told.count("a1") == 3 and not answers:
            answers.append(await desk.events.replay(GROUP))
        await desk.handle(event)

    desk = Desk(handler=handle)
    desk.fails["a1"] = 4
    await desk.emit("a1")
    for _ in range(5):
        await desk.later()
    assert answers == [1]
    assert desk.done == ["a1"]


async def test_an_event_that_hangs_is_cut_off_though_its_worker_only_runs_until_it_is_idle() -> None:
    office = Office()
    entered = asyncio.Event()

    @office.app.on(TOPIC, group=GROUP)
    async def handle(event: Event[str]) -> None:
        entered.set()
        await asyncio.get_running_loop().create_future()

    async with office.app as app:
        await office.emit("a1")
        worker = app.worker()
        running = asyncio.create_task(worker.run(until_idle=True))
        await entered.wait()
        worker.stop(0)
        async with asyncio.timeout(PATIENCE):
            await running


async def test_a_handler_that_does_not_heed_its_cancellation_does_not_keep_its_worker() -> None:
    office = Office(kill_seconds=0.2)
    entered, over = asyncio.Event(), asyncio.Event()

    @office.app.on(TOPIC, group=GROUP)
    async def handle(event: Event[str]) -> None:
        entered.set()
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                continue

    async with office.app as app:
        await office.emit("a1")
        worker = app.worker()
        running = asyncio.create_task(worker.run())
        await entered.wait()
        worker.stop(0)
        try:
            async with asyncio.timeout(PATIENCE):
                await running
        finally:
            over.set()


async def test_a_blocking_handler_that_does_not_listen_does_not_keep_its_worker() -> None:
    office = Office(kill_seconds=0.2)
    entered, over = threading.Event(), threading.Event()

    @office.app.on(TOPIC, group=GROUP)
    def handle(ctx: Context, event: Event[str]) -> None:
        entered.set()
        assert over.wait(PATIENCE)

    async with office.app as app:
        await office.emit("a1")
        worker = app.worker()
        running = asyncio.create_task(worker.run())
        assert await asyncio.to_thread(entered.wait, PATIENCE)
        worker.stop(0)
        try:
            async with asyncio.timeout(PATIENCE / 2):
                await running
        finally:
            over.set()


async def test_a_short_outage_does_not_end_a_worker_that_runs_until_it_is_idle() -> None:
    rig = Rig()
    told: list[str] = []

    async def handle(event: Event[str]) -> None:
        told.append(event.data)

    session = await rig.memory.connect("default")
    await session.events.append([Event(topic=TOPIC, type="t", data="a1").stored(new_id())])
    rig.faults.plan("read", before=StoreUnavailable("for a moment"))
    worker = rig.worker(subscriptions=[subscribe(handle, TOPIC, GROUP)])
    assert await worker.run(until_idle=True) == 0
    assert told == ["a1"]
