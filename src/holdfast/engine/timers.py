"""One heap for all deadlines of a worker, so that a job's timeout costs no timer of its own."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from itertools import count
from typing import Generic, TypeVar

T = TypeVar("T")


class Timers(Generic[T]):
    """Calls `expire(item)` on the loop once an item's time has come. Times are those of the loop's clock.

    Items are not removed when they are no longer of interest: `expire` must be able to tell.
    """

    def __init__(self, expire: Callable[[T], None]) -> None:
        self._expire = expire
        self._heap: list[tuple[float, int, T]] = []
        self._order = count()
        self._handle: asyncio.TimerHandle | None = None

    def at(self, when: float, item: T) -> None:
        heapq.heappush(self._heap, (when, next(self._order), item))
        if self._handle is None or when < self._handle.when():
            self._arm()

    def clear(self) -> None:
        self._heap.clear()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = asyncio.get_running_loop().call_at(self._heap[0][0], self._fire)

    def _fire(self) -> None:
        self._handle = None
        now = asyncio.get_running_loop().time()
        while self._heap and self._heap[0][0] <= now:
            self._expire(heapq.heappop(self._heap)[2])
        if self._heap:
            self._arm()
