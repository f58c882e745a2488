"""One heap for all deadlines of a worker, so that a job's timeout costs no timer of its own."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from itertools import count
from typing import Generic, TypeVar

T = TypeVar("T")

_FEWEST = 256


class Timers(Generic[T]):
    """Calls `expire(item)` on the loop once an item's time has come. Times are those of the loop's clock.

    Items are not taken out one by one when they are `over`: they go when half of the heap may be such, so
    that many short jobs with long timeouts do not pile up.
    """

    def __init__(self, expire: Callable[[T], None], is_over: Callable[[T], bool]) -> None:
        self._expire = expire
        self._is_over = is_over
        self._heap: list[tuple[float, int, T]] = []
        self._order = count()
        self._room = _FEWEST
        self._handle: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._heap)

    def at(self, when: float, item: T) -> None:
        if len(self._heap) >= self._room:
            self._heap = [entry for entry in self._heap if not self._is_over(entry[2])]
            heapq.heapify(self._heap)
            self._room = max(_FEWEST, 2 * len(self._heap))
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
            item = heapq.heappop(self._heap)[2]
            if not self._is_over(item):
                self._expire(item)
        if self._heap:
            self._arm()
