"""How many jobs to claim ahead of the free slots."""

from __future__ import annotations

SHARE = 0.3
HEADROOM = 1.5


class Appetite:
    """Prefetch by Little's law: what will be finished during one round trip, and a half more.

    Slow jobs finish nothing in that time, so for them it is zero and nothing is held back from other workers.
    """

    def __init__(self, batch: int) -> None:
        self._batch = batch
        self._rate = 0.0
        self._round_trip = 0.0
        self._last: float | None = None

    def observe(self, finished: int, sent: float, answered: float) -> None:
        """Learns from one tick: how many attempts it reported, and when it left and came back."""
        if self._last is not None:
            rate = finished / max(answered - self._last, 1e-6)
            self._rate += SHARE * (rate - self._rate) if rate < self._rate else rate - self._rate
        self._round_trip += SHARE * (answered - sent - self._round_trip)
        self._last = answered

    @property
    def prefetch(self) -> int:
        return min(self._batch, int(self._rate * self._round_trip * HEADROOM))
