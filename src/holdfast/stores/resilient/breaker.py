"""The circuit breaker: who does not reach the store for long asks it once a second and no more.

Calls are made elsewhere, on any event loop of any thread, and how they end is told here. Nothing waits or
needs a timer: an open circuit becomes half-open when somebody calls and the next probe is due.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

from holdfast.model.errors import StoreUnavailable
from holdfast.model.masking import mask
from holdfast.store.circuit import CircuitReport, CircuitState

log = logging.getLogger("holdfast.store")

SILENCE_SECONDS = 10.0
"""Faults further apart than this do not belong to one outage."""

CLOSED, OPEN, HALF_OPEN = CircuitState.CLOSED, CircuitState.OPEN, CircuitState.HALF_OPEN


class Breaker:
    """Tells whether a store is worth asking. One for a store, shared by all its sessions, on any thread.

    It opens after `failures` calls in a row have failed, over at least `outage_seconds`: a hundred calls cut
    off by one restart are not a long outage. Open, it lets one call through about every `reset_seconds` and
    is half-open until that one ends; the first that the store answers closes it.
    """

    def __init__(
        self,
        *,
        failures: int = 5,
        outage_seconds: float = 2.0,
        reset_seconds: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._failures = failures
        self._outage = outage_seconds
        self._reset = reset_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._state = CLOSED
        self._in_a_row = 0
        self._since = 0.0
        self._last = 0.0
        self._next_probe = 0.0
        self._fault = ""
        self._faults = 0
        self._retries = 0
        self._refused = 0
        self._opened = 0
        self._closed = 0
        self._probes = 0
        self.is_failing = False
        """Whether the last call that ended did not reach the store. Read without the lock."""

    @property
    def state(self) -> CircuitState:
        return self._state

    @property
    def is_open(self) -> bool:
        """Whether calls are refused; half-open is open to all but the probe."""
        return self._state is not CLOSED

    def report(self) -> CircuitReport:
        with self._lock:
            now = self._clock()
            return CircuitReport(
                state=self._state,
                fault=self._fault,
                away_seconds=self._lasted(now) if self.is_failing else None,
                next_probe_seconds=max(0.0, round(self._next_probe - now, 3)) if self.is_open else None,
                faults=self._faults,
                retries=self._retries,
                refused=self._refused,
                opened=self._opened,
                closed=self._closed,
                probes=self._probes,
            )

    def admit(self) -> None:
        """Raises StoreUnavailable if the circuit is open and the next probe is not due.

        A probe that neither succeeds nor fails, because it hangs or is cancelled, delays the next one as long
        as a failed one does.
        """
        with self._lock:
            if self._state is CLOSED:
                return
            now = self._clock()
            if now < self._next_probe:
                raise StoreUnavailable(self._refusal(now))
            self._state = HALF_OPEN
            self._probes += 1
            self._next_probe = now + self._pause()
            facts = {"seconds": self._lasted(now), "error": self._fault}
        log.debug("circuit half-open", extra={"fields": facts})

    def failed(self, error: Exception) -> None:
        """Counts a try that did not reach the store, or lost its answer."""
        with self._lock:
            now = self._clock()
            is_new = self._state is CLOSED and now - self._last > SILENCE_SECONDS
            if is_new or not self.is_failing:
                self._in_a_row = 0
                self._since = now
                self.is_failing = True
            self._last = now
            self._fault = mask(str(error) or type(error).__name__)
            self._faults += 1
            self._in_a_row += 1
            has_opened = self._state is CLOSED and self._is_long(now)
            # While it is open, what fails was sent before, and does not put off the next probe.
            if has_opened or self._state is HALF_OPEN:
                self._state = OPEN
                self._opened += has_opened
                self._next_probe = now + self._pause()
            facts = {"failures": self._in_a_row, "seconds": self._lasted(now), "error": self._fault}
        if has_opened:
            log.warning("circuit opened", extra={"fields": facts})

    def succeeded(self) -> None:
        """Counts a try that the store answered, be it with an error."""
        with self._lock:
            was_open = self.is_open
            self._state = CLOSED
            self._closed += was_open
            self.is_failing = False
            facts = {"seconds": self._lasted(self._clock())}
        if was_open:
            log.warning("circuit closed", extra={"fields": facts})

    def count_retry(self) -> None:
        """Notes that a try was made because the one before had failed."""
        with self._lock:
            self._retries += 1

    def count_refused(self) -> None:
        """Notes that a call has ended without an answer because the circuit is open."""
        with self._lock:
            self._refused += 1

    def _is_long(self, now: float) -> bool:
        return self._in_a_row >= self._failures and now - self._since >= self._outage

    def _pause(self) -> float:
        return self._reset * random.uniform(0.5, 1.5)

    def _lasted(self, now: float) -> float:
        return round(now - self._since, 3)

    def _refusal(self, now: float) -> str:
        since = datetime.fromtimestamp(time.time() - (now - self._since), UTC)
        return (
            f"the store has been unreachable since {since:%Y-%m-%d %H:%M:%S} UTC ({self._fault}); "
            f"nothing was sent, the next try is in {self._next_probe - now:.1f} s"
        )
