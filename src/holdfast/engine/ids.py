"""Job ids: UUIDs of version 7, as canonical text, each greater than the one before it in this process."""

from __future__ import annotations

import os
import time
from random import Random
from threading import Lock

from holdfast.model.partition import stamp, stamped

_RANDOM_BITS = 74
_STEP_BITS = 48
_LEAST_STEP = 1 << 16
"""Ids differ, and keep their order, also above their last bits, which may tell a partition."""


class _Source:
    """Draws ids. Within one millisecond the random part only grows, by steps that cannot be foreseen."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Forgets everything: a forked child must not repeat what its parent draws."""
        self._lock = Lock()
        self._random = Random(os.urandom(32))
        self._millis = 0
        self._tail = 0
        self._head = ""

    def draw(self, count: int) -> list[str]:
        drawn: list[str] = []
        with self._lock:
            millis = time.time_ns() // 1_000_000
            if millis > self._millis:
                self._turn(millis)
            else:
                # Also when the clock goes backwards: the order of ids counts for more than their time.
                self._step()
            for _ in range(count):
                tail = self._tail
                middle, end = 0x8000 | tail >> 48 & 0x3FFF, tail & 0xFFFF_FFFF_FFFF
                drawn.append(f"{self._head}{tail >> 62:03x}-{middle:04x}-{end:012x}")
                self._step()
        return drawn

    def _step(self) -> None:
        self._tail += _LEAST_STEP + self._random.getrandbits(_STEP_BITS)
        if self._tail >> _RANDOM_BITS:
            self._turn(self._millis + 1)

    def _turn(self, millis: int) -> None:
        self._millis = millis
        self._head = f"{millis >> 16:08x}-{millis & 0xFFFF:04x}-7"
        self._tail = self._random.getrandbits(_RANDOM_BITS - 1)


_source = _Source()
os.register_at_fork(after_in_child=_source.renew)


def new_id() -> str:
    return _source.draw(1)[0]


def new_ids(count: int) -> list[str]:
    """As many ids, in order; cheaper than one by one."""
    return _source.draw(count)


def new_id_beside(job_id: str) -> str:
    """An id for a job that is stored where another one is: it tells the same partition, if that tells one."""
    return stamped(_source.draw(1)[0], stamp(job_id))
