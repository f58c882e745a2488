"""Waiting for facts: looking again and again, up to a deadline."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

PATIENCE = 20.0
"""Seconds to wait for what should have happened long before, on a busy machine."""
_PACE = 0.02
_MOST_SHOWN = 3_000

T = TypeVar("T")


async def until(
    fact: Callable[[], T],
    what: str,
    holds: Callable[[T], object] = bool,
    *,
    within: float = PATIENCE,
    show: Callable[[], str] = str,
) -> T:
    """The fact, once it holds. Fails, saying what was waited for, if it does not in time."""

    async def look() -> T:
        return fact()

    return await until_async(look, what, holds, within=within, show=show)


async def until_async(
    fact: Callable[[], Awaitable[T]],
    what: str,
    holds: Callable[[T], object] = bool,
    *,
    within: float = PATIENCE,
    show: Callable[[], str] = str,
) -> T:
    """The same for a fact that is asked of the store."""
    deadline = time.monotonic() + within
    while True:
        value = await fact()
        if holds(value):
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {within:g} s in vain: {what}; {value!r}\n{show()[-_MOST_SHOWN:]}")
        await asyncio.sleep(_PACE)
