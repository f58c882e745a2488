"""A fork that a handler makes is a copy of the worker, and must not go on as one.

It may do what it was made for, and end, or become another program. But where the handler returns in it, or
waits on the event loop, it is ended: it has the worker's identity and its jobs, and the system gives the
wake-ups of the worker's event loop to either of the two.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator
from contextlib import contextmanager

EXIT_CODE = 70

_loops: list[asyncio.AbstractEventLoop] = []
_generation = 0


@contextmanager
def guarding(loop: asyncio.AbstractEventLoop) -> Generator[None]:
    """Lets no fork of this process run the event loop."""
    _loops.append(loop)
    try:
        yield
    finally:
        _loops.remove(loop)


def generation() -> int:
    """How often the process was forked on the way here."""
    return _generation


def end_copy(before: int) -> None:
    """Does not return in a process that was forked since the generation `before`."""
    if _generation != before:
        os._exit(EXIT_CODE)


def _count() -> None:
    global _generation  # noqa: PLW0603  it is a fact about the process
    _generation += 1
    for loop in _loops:
        loop.call_soon(os._exit, EXIT_CODE)
    _loops.clear()


os.register_at_fork(after_in_child=_count)
