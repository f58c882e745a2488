"""Where ids come from."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from random import Random
from threading import Lock

_RANDOM_BITS = 74
_STEP_BITS = 48
_LEAST_STEP = 1 << 16
"""Ids differ, and keep their order, also above their last bits, which may tell a partition."""


class IdSource:
    """Draws ids. Within one millisecond the random part only grows, by steps that cannot be foreseen.

    `wall` gives nanoseconds since 1970, `entropy` so many bytes of chance.
    """

    def __init__(
        self, wall: Callable[[], int] = time.time_ns, entropy: Callable[[int], bytes] = os.urandom
    ) -> None:
        self._wall = wall
        self._entropy = entropy
        self.renew()

    def renew(self) -> None:
        """Forgets everything: a forked child must not repeat what its parent draws."""
        self._lock = Lock()
        self._random = Random(self._entropy(32))
        self._millis = 0
        self._tail = 0
        self._head = ""

    def draw(self, count: int) -> list[str]:
        drawn: list[str] = []
        with self._lock:
            millis = self._wall() // 1_000_000
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
