"""Seats that stay between calls."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Final

from holdfast.stores.mssql.seat import Opened, Seat

IDLE: Final = 300.0
"""Seconds after which a connection that nobody needed is closed."""

MOST_LEFT: Final = 64
"""How many threads may hang on silent servers before their seats stay taken."""

_numbers = count(1)


class Pool:
    """At most `most` seats, made when needed. The last one returned is lent first."""

    def __init__(
        self, opener: Callable[[], Opened], most: int, keeper: Callable[[Opened], None] | None = None
    ) -> None:
        self._open = opener
        self._keep = keeper
        self._most = most
        self._all: set[Seat] = set()
        self._idle: deque[Seat] = deque()
        self._left: set[Seat] = set()
        self._waiting: deque[asyncio.Future[Seat]] = deque()
        self._returned = asyncio.Event()
        self._is_closed = False

    def lend(self) -> Seat | None:
        """A seat, if one is free or may be made."""
        self._check_open()
        if self._idle:
            return self._idle.pop()
        return self._make() if self._has_room() else None

    async def acquire(self, patience: float) -> Seat:
        """A seat, waiting for one if all are in use. Raises TimeoutError, or ConnectionError if closed."""
        if (seat := self.lend()) is not None:
            return seat
        waiter: asyncio.Future[Seat] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout(patience):
                return await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self.release(waiter.result())
            raise

    def release(self, seat: Seat, patience: float | None = None) -> None:
        """Takes a seat back, once what it does has ended, or gives it up if that takes too long."""
        if seat not in self._all:
            return
        if (answer := seat.answer) is not None and seat.is_busy:
            answer.add_done_callback(lambda _: self.release(seat))
            if patience is not None:
                late = asyncio.get_running_loop().call_later(patience, self.abandon, seat)
                answer.add_done_callback(lambda _: late.cancel())
            return
        self._returned.set()
        if self._is_closed:
            self._end(seat)
            return
        seat.since = time.monotonic()
        if not self._give(seat):
            self._idle.append(seat)
            self._close_old()

    def abandon(self, seat: Seat) -> None:
        """Gives up a seat whose server is silent; another may take its place."""
        seat.abandon()
        self._left.add(seat)
        seat.ended.add_done_callback(lambda _: self._left.discard(seat))
        self._all.discard(seat)
        self._returned.set()
        if not self._is_closed and self._waiting and self._has_room():
            self._give(self._make())

    def suspect(self) -> None:
        """Has every connection checked before it is used again: one of them was cut off."""
        for seat in self._all:
            seat.suspect()

    async def close(self, patience: float) -> None:
        """Waits a little for what is under way, and ends every connection."""
        self._is_closed = True
        seats = list(self._all)
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(ConnectionError("the session is closed"))
        while self._idle:
            self._end(self._idle.pop())
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while self._all:
                    self._returned.clear()
                    await self._returned.wait()
        for seat in list(self._all):
            self._all.discard(seat)
            seat.abandon()
        if seats:
            await asyncio.wait([seat.ended for seat in seats], timeout=patience)

    def _has_room(self) -> bool:
        return len(self._all) + max(0, len(self._left) - MOST_LEFT) < self._most

    def _make(self) -> Seat:
        seat = Seat(self._open, next(_numbers), self._keep)
        self._all.add(seat)
        return seat

    def _give(self, seat: Seat) -> bool:
        """Gives the seat to the next who waits; whether anybody does."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(seat)
                return True
        return False

    def _end(self, seat: Seat) -> None:
        self._all.discard(seat)
        seat.leave()

    def _close_old(self) -> None:
        oldest = self._idle[0]
        if len(self._idle) > 1 and time.monotonic() - oldest.since > IDLE:
            self._idle.popleft()
            self._end(oldest)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConnectionError("the session is closed")
