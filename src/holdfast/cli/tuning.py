"""A process that does nothing but work, set up for light jobs."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from importlib import import_module
from typing import cast

YOUNG = 20_000
"""So many new objects are made before the collector looks: some hundred jobs' worth, not some dozen."""


def tuned_runner() -> asyncio.Runner:
    """A runner on uvloop's event loop if that is installed: light jobs cost less with it.

    The application is loaded by now, so the collector need never look at it again; it would do so after every
    few thousand jobs.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])
    return asyncio.Runner(loop_factory=_loop_factory())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        uvloop = import_module("uvloop")
    except ImportError:
        return None
    return cast("Callable[[], asyncio.AbstractEventLoop]", uvloop.new_event_loop)
