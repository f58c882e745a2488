"""Calls a handler of events: on the loop or on a thread, within its time, and not beyond its term."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from types import CoroutineType
from typing import Any

from holdfast.engine import surroundings
from holdfast.engine.context import Context
from holdfast.engine.delivery import Delivery
from holdfast.model.outcome import Stop
from holdfast.model.subscription import Subscription, check_readable
from holdfast.model.timing import SECOND

Ending = asyncio.Future[BaseException | None]


async def call(
    subscription: Subscription,
    delivery: Delivery,
    state: Any,
    patience: float,
    context: contextvars.Context,
) -> BaseException | None:
    """Calls the handler, in that context, and waits for its end; what it raised, or TimeoutError.

    One that is told to stop, because its time is over or this is cancelled, has `patience` seconds for that.
    Then it is left to itself.
    """
    try:
        task, ended = _begun(subscription, delivery, state, context)
    except Exception as error:  # noqa: BLE001  decoding runs the validators of user code
        return error
    limit = None if subscription.timeout is None else subscription.timeout / SECOND
    try:
        await asyncio.wait([ended], timeout=limit)
    except asyncio.CancelledError:
        await _stopped(task, ended, delivery, Stop.LEASE_LOST, patience)
        raise
    if ended.done():
        return ended.result()
    await _stopped(task, ended, delivery, Stop.TIMEOUT, patience)
    return TimeoutError(f"no end within {limit:g} s")


def _begun(
    subscription: Subscription, delivery: Delivery, state: Any, context: contextvars.Context
) -> tuple[asyncio.Task[None] | None, Ending]:
    function, relay = subscription.function, subscription.relay
    if relay is not None:
        check_readable([delivery.event])
        return _on_loop(lambda: relay([delivery.event]), context)
    assert function is not None
    arguments: list[Any] = [subscription.event(delivery.event)]
    if subscription.takes_context:
        arguments.insert(0, Context(delivery, state))
    if subscription.is_async:
        return _on_loop(lambda: function(*arguments), context)
    return None, _in_thread(lambda: function(*arguments), context)


def _on_loop(work: Callable[[], Any], context: contextvars.Context) -> tuple[asyncio.Task[None], Ending]:
    """In a task of its own, so that one that cancels itself ends nothing else."""
    loop = asyncio.get_running_loop()
    ended: Ending = loop.create_future()

    async def run() -> None:
        error: BaseException | None = None
        try:
            await work()
        except BaseException as raised:  # noqa: BLE001  whatever user code does is one failed attempt
            error = raised
        if not ended.done():
            ended.set_result(error)

    return asyncio.Task(run(), loop=loop, context=context), ended


def _in_thread(work: Callable[[], object], context: contextvars.Context) -> Ending:
    """On a thread of its own, which cannot be killed and does not keep a process alive."""
    loop = asyncio.get_running_loop()
    ended: Ending = loop.create_future()

    def tell(error: BaseException | None) -> None:
        if not ended.done():
            ended.set_result(error)

    def run() -> None:
        error: BaseException | None = None
        try:
            _check_done(context.run(work))
        except BaseException as raised:  # noqa: BLE001  whatever user code does is one failed attempt
            error = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(tell, error)

    surroundings.start_thread(run, name="holdfast-event")
    return ended


def _check_done(value: object) -> None:
    if isinstance(value, CoroutineType):
        value.close()
        raise TypeError("the handler returned a coroutine, so its work was not done; make it `async def`")


async def _stopped(
    task: asyncio.Task[None] | None, ended: Ending, delivery: Delivery, stop: Stop, patience: float
) -> None:
    delivery.told = stop
    if task is not None:
        task.cancel()
    await asyncio.wait([ended], timeout=patience)
    if task is not None and not ended.done():
        # It does not heed being cancelled, and `asyncio.run` would wait for it for ever.
        asyncio.tasks._unregister_task(task)  # noqa: SLF001  documented for just this
