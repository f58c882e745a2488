"""What the engine takes from the process that it runs in: time, chance, names and threads.

It is taken from here alone, and by way of this module (`surroundings.now()`), so that a simulation can stand
in for all of it.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Protocol

from holdfast.engine.apart import (
    Hands,
    MakeHands,
    StartLoop,
    StartThread,
    start_loop_apart,
    start_thread_apart,
)
from holdfast.engine.id_source import IdSource


class Surroundings(Protocol):
    """All that can be stood in for."""

    @property
    def now(self) -> Callable[[], float]:
        """Seconds that only grow, also while the machine sleeps, as they do for the store."""
        ...

    @property
    def longest_timer(self) -> float: ...

    @property
    def draw_ids(self) -> Callable[[int], list[str]]: ...

    @property
    def token_hex(self) -> Callable[[int], str]: ...

    @property
    def host_name(self) -> Callable[[], str]: ...

    @property
    def process_id(self) -> Callable[[], int]: ...

    @property
    def start_thread(self) -> StartThread: ...

    @property
    def start_loop(self) -> StartLoop: ...

    @property
    def make_hands(self) -> MakeHands: ...


now: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic
)
longest_timer: float = 1.0
"""Timers stand still while the machine sleeps, and `now` does not: what must be known soon after it woke up
is looked at after so many seconds at the latest."""

_ids = IdSource()
os.register_at_fork(after_in_child=_ids.renew)
draw_ids: Callable[[int], list[str]] = _ids.draw
token_hex: Callable[[int], str] = secrets.token_hex
host_name: Callable[[], str] = socket.gethostname
process_id: Callable[[], int] = os.getpid
start_thread: StartThread = start_thread_apart
start_loop: StartLoop = start_loop_apart
make_hands: MakeHands = Hands


@contextmanager
def replaced(by: Surroundings) -> Generator[None]:
    """Takes everything from there instead. Nothing else of the engine may run in this process meanwhile."""
    module = sys.modules[__name__]
    names = [name for name in vars(Surroundings) if not name.startswith("_")]
    before = {name: getattr(module, name) for name in names}
    for name in names:
        setattr(module, name, getattr(by, name))
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)
