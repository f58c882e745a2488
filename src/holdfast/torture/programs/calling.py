"""Calls of which history hears: before, and what became of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Final, TypeVar

from msgspec.structs import replace

from holdfast.model.errors import HoldfastError, OutcomeUnknown, StoreError, StoreUnavailable
from holdfast.telemetry import logs
from holdfast.torture.history import Call, Done, Failed, Unknown
from holdfast.torture.programs.witness import recorder
from holdfast.torture.programs.workload import app

T = TypeVar("T")

PAUSE: Final = 0.1


async def opened(work: Callable[[], Awaitable[None]]) -> None:
    """Does the work with the application open, as soon as the store lets it be opened."""
    logs.configure(app.settings)
    while True:
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(app)
            except (StoreError, TimeoutError):
                await asyncio.sleep(PAUSE)
                continue
            await work()
            return


async def told(call: Call, make: Callable[[], Awaitable[T]], answer: Callable[[T, int], Done]) -> T:
    """Makes the call once; raises what it raises."""
    op = recorder().call(call)
    try:
        value = await make()
    except OutcomeUnknown as error:
        recorder().write(Unknown(op=op, error=type(error).__name__))
        raise
    except HoldfastError as error:
        recorder().write(Failed(op=op, error=type(error).__name__))
        raise
    recorder().write(answer(value, op))
    return value


async def insisted(
    call: Call,
    make: Callable[[], Awaitable[T]],
    answer: Callable[[T, int], Done],
    *,
    tries: int,
) -> T | None:
    """Makes the call until the store has answered, at most so often; None if it has not."""
    is_again = False
    for _ in range(tries):
        try:
            return await told(replace(call, again=is_again), make, answer)
        except OutcomeUnknown:
            is_again = True
        except StoreUnavailable:
            pass
        await asyncio.sleep(PAUSE)
    return None
