"""Whether to ask the store for work, for how much, and when again."""

from __future__ import annotations

from holdfast.engine.hold import now
from holdfast.model.records import Ticked, Want
from holdfast.model.settings import Settings
from holdfast.model.task import Registry
from holdfast.model.timing import SECOND

SHARE = 0.3
HEADROOM = 1.5


class Appetite:
    """One worker's appetite. `hungry` is set whenever there may be work that was not asked for yet.

    Jobs are claimed ahead of the free slots by Little's law: what will be finished during one round trip, and
    a half more. Slow jobs finish nothing in that time, so for them it is zero and nothing is held back from
    other workers.
    """

    def __init__(self, queues: tuple[str, ...], registry: Registry, settings: Settings) -> None:
        self._queues = queues
        self._registry = registry
        self._batch = settings.batch
        self._lease = settings.timing.lease
        self._poll = settings.poll_seconds
        self._turn = 0
        self._next_due: float | None = None
        self._rate = 0.0
        self._round_trip = 0.0
        self._last: float | None = None
        self.hungry = True

    def want(self, free: int, waiting: int) -> Want | None:
        """What to claim with so many free slots and so many jobs waiting for one; None if nothing."""
        prefetch = int(self._rate * self._round_trip * HEADROOM)
        limit = min(free + prefetch - waiting, self._batch)
        if limit <= 0:
            return None
        # Each tick begins with another queue, so that a busy one cannot starve those after it.
        queues, turn = self._queues, (self._turn + 1) % len(self._queues)
        self._turn = turn
        self.hungry = False
        return Want(
            queues=queues[turn:] + queues[:turn],
            tasks=self._registry.names,
            limit=limit,
            lease=self._lease,
        )

    def observe(self, finished: int, sent: float, answered: float) -> None:
        """Learns from one tick: how many attempts it reported, and when it left and came back."""
        if self._last is not None:
            rate = finished / max(answered - self._last, 1e-6)
            self._rate += SHARE * (rate - self._rate) if rate < self._rate else rate - self._rate
        self._round_trip += SHARE * (answered - sent - self._round_trip)
        self._last = answered

    def feed(self, want: Want, ticked: Ticked) -> None:
        """Learns what the store had: as much as was wanted means that there may be more."""
        if len(ticked.claimed) >= want.limit:
            self.hungry = True
        self._next_due = None if ticked.next_due is None else now() + ticked.next_due / SECOND

    def pause(self) -> float:
        """How long to wait at most until it is time to ask again."""
        if self._next_due is None:
            return self._poll
        return min(self._poll, max(0.0, self._next_due - now()))

    def time_passed(self) -> None:
        """The pause is over: something may be due, and what was known of it is used up."""
        self.hungry = True
        self._next_due = None
