"""Handlers of events: whatever their code does is one failed attempt at one event."""

import asyncio
import logging
import sys
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from holdfast import Context, Event, Retry
from holdfast.engine.ids import new_id
from holdfast.model.records import Query
from holdfast.model.retry import Fixed
from tests.engine.consuming import GROUP, TOPIC, WAIT, Boom, Desk
from tests.engine.rig import PATIENCE

CALLED: list[str] = []


class Order(msgspec.Struct):
    number: int


async def test_a_plain_function_is_called_on_a_thread_of_its_own_with_its_own_context() -> None:
    threads: list[str] = []

    def handle(event: Event[str]) -> None:
        threads.append(threading.current_thread().name)
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()

    desk = Desk(handler=handle)
    await desk.emit("a1")
    await desk.drain()
    assert threads == ["holdfast-event"]
    assert await desk.waiting() == []


@pytest.mark.parametrize("error", [Boom("x"), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "plain"])
async def test_whatever_is_raised_is_one_failed_attempt(error: BaseException, is_async: bool) -> None:
    told: list[str] = []

    def fail(event: Event[str]) -> None:
        told.append(event.data)
        if len(told) == 1:
            raise error

    async def fail_async(event: Event[str]) -> None:
        fail(event)

    desk = Desk(handler=fail_async if is_async else fail)
    await desk.emit("a1", "a2", "b1")
    await desk.drain()
    [waiting] = (await desk.info()).waiting
    assert (waiting.aggregate, waiting.failures) == ("a", 1)
    assert waiting.reason.startswith(type(error).__name__)
    await desk.later()
    assert told == ["a1", "b1", "a1", "a2"]


async def test_an_async_handler_that_takes_too_long_is_cut_off_and_tried_again() -> None:
    ended: list[str] = []

    async def handle(ctx: Context, event: Event[str]) -> None:
        try:
            if ctx.run == 1:
                await asyncio.get_running_loop().create_future()
        finally:
            ended.append(event.data)

    desk = Desk(handler=handle, timeout=0.05)
    await desk.emit("a1", "b1")
    await desk.drain()
    assert [waiting.reason.partition(":")[0] for waiting in (await desk.info()).waiting] == [
        "TimeoutError"
    ] * 2
    await desk.later()
    assert ended == ["a1", "b1", "a1", "b1"]
    assert await desk.waiting() == []


async def test_a_blocking_handler_that_takes_too_long_is_told_so_and_is_waited_for() -> None:
    seen: list[object] = []

    def handle(ctx: Context, event: Event[str]) -> None:
        if ctx.run == 1:
            deadline = threading.Event()
            while not ctx.cancelled:
                assert not deadline.wait(0.01)
            seen.append("told")
            with pytest.raises(asyncio.CancelledError):
                ctx.check()
        else:
            seen.append("done")

    desk = Desk(handler=handle, timeout=0.05)
    await desk.emit("a1")
    await desk.drain()
    assert seen == ["told"]
    assert await desk.waiting() == [("a", 1, False)]
    await desk.later()
    assert seen == ["told", "done"]


async def test_a_blocking_handler_that_does_not_listen_holds_up_nobody() -> None:
    gate = threading.Event()
    told: list[str] = []

    def handle(event: Event[str]) -> None:
        told.append(event.data)
        if len(told) == 1:
            assert gate.wait(PATIENCE)

    desk = Desk(handler=handle, timeout=0.05)
    await desk.emit("a1", "b1")
    try:
        await desk.drain()
        assert told == ["a1", "b1"]
        assert await desk.waiting() == [("a", 1, False)]
    finally:
        gate.set()


async def test_a_handler_says_itself_when_it_is_to_be_tried_again() -> None:
    desk = Desk(handler=_retries(after=3 * WAIT), retry=Fixed(1, wait=0))
    await desk.emit("a1")
    await desk.drain()
    await desk.later(2 * WAIT)
    assert CALLED == ["a1"]
    await desk.later(2 * WAIT)
    assert CALLED == ["a1", "a1"]
    assert await desk.waiting() == [("a", 2, True)], "it counts"


async def test_a_retry_that_does_not_count_goes_on_for_ever() -> None:
    desk = Desk(handler=_retries(after=1, count=False), retry=Fixed(1, wait=0))
    await desk.emit("a1", "a2")
    for _ in range(10):
        await desk.later()
    assert CALLED == ["a1"] * 10
    assert await desk.waiting() == [("a", 0, False)]


def _retries(**how: Any) -> Callable[..., Any]:
    CALLED.clear()

    async def handle(event: Event[str]) -> None:
        CALLED.append(event.data)
        raise Retry(**how)

    return handle


async def test_data_that_are_not_of_the_annotated_type_park_their_aggregate_at_once() -> None:
    told: list[Order] = []

    async def handle(event: Event[Order]) -> None:
        told.append(event.data)

    desk = Desk(handler=handle)
    session = await desk.rig.memory.connect("default")
    orders = [("a", {"number": "one"}), ("a", {"number": 2}), ("b", {"number": 3})]
    await session.events.append(
        [Event(topic=TOPIC, type="t", data=data, aggregate=name).stored(new_id()) for name, data in orders]
    )
    await desk.drain()
    assert told == [Order(3)]
    assert await desk.waiting() == [("a", 1, True)]
    assert "number" in (await desk.info()).waiting[0].reason
    await desk.events.skip(GROUP)
    await desk.drain()
    assert told == [Order(3), Order(2)]


async def test_a_strategy_that_fails_parks_the_event_and_says_so() -> None:
    class Broken:
        def decide(self, failure: object, random: float) -> Any:
            raise RuntimeError("no idea")

    desk = Desk(retry=Broken())
    desk.fails["a1"] = 1
    await desk.emit("a1", "b1")
    await desk.drain()
    assert desk.done == ["b1"]
    assert await desk.waiting() == [("a", 1, True)]
    assert "its retry strategy failed: RuntimeError" in (await desk.info()).waiting[0].reason


async def test_what_a_handler_emits_and_enqueues_is_stored_with_its_success_or_not_at_all() -> None:
    desk = Desk()
    work = desk.rig.task(_work)

    async def handle(ctx: Context, event: Event[str]) -> None:
        job = ctx.enqueue(desk.rig.call(work, event.data))
        emitted = ctx.emit(Event(topic="done", type="t", data=event.data))
        assert job != emitted
        if event.data == "a1" and ctx.run < 3:
            raise Boom("after it had emitted")

    desk.subscription = Desk(handler=handle).subscription
    await desk.emit("a1", "b1")
    await desk.drain()
    assert await _stored(desk) == (["b1"], 1)
    await desk.later()
    assert await _stored(desk) == (["b1"], 1)
    await desk.later()
    assert await _stored(desk) == (["b1", "a1"], 2)


async def test_what_is_stored_with_a_success_comes_once_though_an_operator_writes_meanwhile() -> None:
    desk = Desk()
    work = desk.rig.task(_work)

    async def handle(ctx: Context, event: Event[str]) -> None:
        if event.data == "a1" and ctx.run == 1:
            raise Boom
        ctx.enqueue(desk.rig.call(work, event.data))
        ctx.emit(Event(topic="done", type="t", data=event.data))
        await desk.events.replay(GROUP)

    desk.subscription = Desk(handler=handle).subscription
    await desk.emit("a1", "a2", "b1")
    await desk.drain()
    await desk.later()
    assert await _stored(desk) == (["b1", "a1", "a2"], 3)
    assert await desk.waiting() == []


async def _work(name: str) -> None:
    CALLED.append(name)


async def _stored(desk: Desk) -> tuple[list[str], int]:
    """What was emitted, and how many jobs there are."""
    session = await desk.rig.memory.connect("default")
    emitted = await desk.events.list("done")
    return [event.data for event in emitted], len(await session.jobs.find(Query()))


async def test_the_context_of_a_handler_is_that_of_its_event(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[tuple[str, int, int]] = []

    async def handle(ctx: Context, event: Event[str]) -> None:
        seen.append((ctx.key, ctx.run, ctx.token))
        assert not ctx.cancelled
        assert ctx.firing is None
        assert (ctx.job.id, ctx.job.queue, ctx.state) == (event.id, TOPIC, None)
        ctx.check()
        ctx.progress(0.5)
        ctx.log.warning("at it")
        assert (event.topic, event.type, event.aggregate, event.version) == (TOPIC, "t", "a", 1)
        assert event.position == 1
        assert event.at is not None
        if ctx.run == 1:
            raise Boom

    desk = Desk(handler=handle)
    await desk.emit("a1")
    with caplog.at_level(logging.WARNING, "holdfast.task"):
        await desk.drain()
        await desk.later()
    [(first, *_), (second, *_)] = seen
    assert first == second, "the key is the same for every attempt"
    assert [run for _, run, _ in seen] == [1, 2]
    assert seen[0][2] < seen[1][2], "another holder has a greater token"
    [fields, _] = [record.fields for record in caplog.records if record.name == "holdfast.task"]  # type: ignore[attr-defined]
    assert first == f"{fields['job']}/{GROUP}", "each group has a key of its own"
    assert fields["run"] == 1


async def test_a_store_without_transactions_says_so() -> None:
    async def handle(ctx: Context, event: Event[str]) -> None:
        async with ctx.transaction():
            sys.exit("never")

    desk = Desk(handler=handle)
    await desk.emit("a1")
    await desk.drain()
    [waiting] = (await desk.info()).waiting
    assert "this store has no transactions" in waiting.reason
