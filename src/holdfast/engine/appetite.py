"""Whether to ask the store for work, for how much, and when again."""

from __future__ import annotations

import logging
import random

from holdfast.engine import surroundings
from holdfast.model.records import Ticked, Want
from holdfast.model.settings import Settings
from holdfast.model.strategy import Strategy
from holdfast.model.task import Registry
from holdfast.model.timing import SECOND

log = logging.getLogger("holdfast.worker")

SHARE = 0.3
HEADROOM = 1.5
MOMENT = 0.003
FASTEST = 1e-5
TOP_PACE = 50_000
REST = 1.0
"""Seconds, at most, in which others that poll have all asked."""


class Appetite:
    """One worker's appetite. `hungry` is set whenever there may be work that was not asked for yet.

    Jobs are claimed ahead of the free slots by Little's law: what the slots can finish during one round trip
    and a moment more, at the pace of the last attempts. For slow jobs that is nothing, so none is held back
    from other workers. With `stands` the store may keep what it could not fulfil, if a slot is free: a job
    that is added later must not wait here while another worker is idle.
    """

    def __init__(
        self, queues: tuple[str, ...], registry: Registry, settings: Settings, strategy: Strategy
    ) -> None:
        self._queues = queues
        self._strategy = strategy
        self._registry = registry
        self._batch = settings.batch
        self._lease = settings.timing.lease
        self._poll = settings.poll_seconds
        self._turn = 0
        self._next_due: float | None = None
        self._slots = settings.concurrency
        self._run_time: float | None = None
        self._round_trip = 0.0
        self.hungry = True
        self.stands = 0
        self._rests_until = 0.0

    @property
    def asks(self) -> bool:
        """Whether to ask for work now."""
        return self.hungry and surroundings.now() >= self._rests_until

    def rest(self) -> None:
        """Lets others ask first, once, for what this worker had and could not run, and then asks again."""
        self.hungry = True
        self._rests_until = surroundings.now() + min(self._poll, REST)

    def want(self, free: int, waiting: int) -> Want | None:
        """What to claim with so many free slots and so many jobs waiting for one; None if nothing."""
        limit = min(free + self._prefetch() - waiting, self._batch)
        if limit <= 0 or surroundings.now() < self._rests_until:
            return None
        self.hungry = False
        return Want(
            queues=self._order(),
            tasks=self._registry.names,
            limit=limit,
            lease=self._lease,
            stands=self.stands if free > waiting else 0,
        )

    def look(self) -> Want:
        """Nothing to claim, but how things stand: what waits here may have been paused."""
        return Want(queues=self._queues, tasks=self._registry.names, limit=0, lease=self._lease)

    def _order(self) -> tuple[str, ...]:
        """The queues as the strategy wants them; as they are if it fails, since it may be the user's own."""
        self._turn += 1
        if len(self._queues) == 1:
            return self._queues
        try:
            return self._strategy.order(self._queues, self._turn, random.random)
        except Exception:
            log.exception("the strategy failed; queues are served in their given order")
            return self._queues

    def observe(self, run_times: list[int], round_trip: float) -> None:
        """Learns from one tick: how long the attempts ran that it reported, in µs, and how long it took."""
        self._round_trip += SHARE * (round_trip - self._round_trip)
        if run_times:
            mean = sum(run_times) / len(run_times) / SECOND
            self._run_time = (
                mean if self._run_time is None else self._run_time + SHARE * (mean - self._run_time)
            )

    def _prefetch(self) -> int:
        if self._run_time is None:
            return 0
        pace = min(self._slots / max(self._run_time, FASTEST), TOP_PACE)
        return int(pace * (self._round_trip * HEADROOM + MOMENT))

    def feed(self, want: Want, ticked: Ticked) -> None:
        """Learns what the store had: as much as was wanted means that there may be more.

        So does what is due and was not looked at; and so do jobs that had been claimed before, which were all
        that it gave.
        """
        if (want.limit and len(ticked.claimed) >= want.limit) or ticked.handed or ticked.next_due == 0:
            self.hungry = True
        self._next_due = None if ticked.next_due is None else surroundings.now() + ticked.next_due / SECOND

    def pause(self) -> float:
        """How long to wait at most until it is time to ask again."""
        now = surroundings.now()
        if now < self._rests_until:
            return self._rests_until - now
        return self._poll if self._next_due is None else min(self._poll, max(0.0, self._next_due - now))

    def time_passed(self) -> None:
        """The pause is over: something may be due, and what was known of it is used up."""
        self.hungry = True
        self._next_due = None
