"""The circuit breaker: who does not reach the store for long asks it once a second and no more.

The circuit itself is pybreaker's, which guards its state by a thread's lock and knows no event loop. It
cannot guard a call that awaits, because it would hold that lock all the while, and it measures by the wall
clock, which may jump. So calls are made outside, their ends are told to it, and trials are timed here.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

import pybreaker

from holdfast.model.errors import StoreUnavailable
from holdfast.model.masking import mask

log = logging.getLogger("holdfast.store")

SILENCE_SECONDS = 10.0
"""Faults further apart than this do not belong to one outage."""


class Breaker:
    """Tells whether a store is worth asking. One for a store, shared by all its sessions, on any thread.

    It opens after `failures` calls in a row have failed, over at least `outage_seconds`: a hundred calls cut
    off by one restart are not a long outage. Open, it lets one call through about every `reset_seconds`;
    the first that the store answers closes it.
    """

    def __init__(
        self,
        *,
        failures: int = 5,
        outage_seconds: float = 2.0,
        reset_seconds: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._circuit = pybreaker.CircuitBreaker(fail_max=failures, throw_new_error_on_trip=False)
        self._outage = outage_seconds
        self._reset = reset_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._since = 0.0
        self._last = 0.0
        self._next_try = 0.0
        self._fault = ""
        self.is_failing = False
        """Whether the last call that ended did not reach the store. Read without the lock."""

    @property
    def is_open(self) -> bool:
        return self._circuit.current_state != pybreaker.STATE_CLOSED

    def admit(self) -> None:
        """Raises StoreUnavailable if the circuit is open and the next trial is not due.

        A trial that neither succeeds nor fails, because it hangs or is cancelled, delays the next one as long
        as a failed one does.
        """
        with self._lock:
            if not self.is_open:
                return
            now = self._clock()
            if now < self._next_try:
                raise StoreUnavailable(self._refusal(now))
            self._circuit.half_open()
            self._next_try = now + self._pause()

    def failed(self, error: Exception) -> None:
        """Counts a call that did not reach the store, or lost its answer."""
        with self._lock:
            now = self._clock()
            was_open = self.is_open
            if not self.is_failing or (not was_open and now - self._last > SILENCE_SECONDS):
                self._circuit.close()
                self._since = now
                self.is_failing = True
            self._last = now
            self._fault = mask(str(error) or type(error).__name__)
            self._count(now)
            opened = self.is_open and not was_open
            facts = {
                "failures": self._circuit.fail_counter,
                "seconds": self._lasted(now),
                "error": self._fault,
            }
        if opened:
            log.warning("circuit opened", extra={"fields": facts})

    def succeeded(self) -> None:
        """Counts a call that the store answered, be it with an error."""
        with self._lock:
            was_open = self.is_open
            self._circuit.close()
            self.is_failing = False
            facts = {"seconds": self._lasted(self._clock())}
        if was_open:
            log.warning("circuit closed", extra={"fields": facts})

    def _count(self, now: float) -> None:
        circuit = self._circuit
        if circuit.current_state == pybreaker.STATE_OPEN:
            return  # sent before it opened
        is_last = not self.is_open and circuit.fail_counter + 1 >= circuit.fail_max
        if is_last and now - self._since < self._outage:
            return
        with suppress(_Failed):
            circuit.call(_fail)
        self._next_try = now + self._pause()

    def _pause(self) -> float:
        return self._reset * random.uniform(0.5, 1.5)

    def _lasted(self, now: float) -> float:
        return round(now - self._since, 3)

    def _refusal(self, now: float) -> str:
        since = datetime.fromtimestamp(time.time() - (now - self._since), UTC)
        return (
            f"the store has been unreachable since {since:%Y-%m-%d %H:%M:%S} UTC ({self._fault}); "
            f"nothing was sent, the next try is in {self._next_try - now:.1f} s"
        )


class _Failed(Exception):
    """Tells pybreaker of a failure that happened elsewhere."""


def _fail() -> None:
    raise _Failed
