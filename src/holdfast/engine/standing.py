"""The want that the store keeps for an idle worker, and what is claimed for it."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from holdfast.engine import surroundings
from holdfast.model.records import Handed, JobRecord, Tick, Ticked
from holdfast.model.timing import SECOND


class Standing:
    """At most one want of a worker stands: that of the last tick that left with one.

    What is claimed for it comes either by itself or with the answer to the tick that names it. Once that tick
    has left, what comes by itself is left alone: the answer has it, and no job is taken twice. `take` is
    called with what came by itself, and since when it may be held; with nothing if it is better to ask.
    """

    def __init__(self, worker: str, take: Callable[[list[JobRecord], float], None]) -> None:
        self._worker = worker
        self._take = take
        self._seq: int | None = None
        self._left = 0.0
        self._is_answered = False
        self._early: Handed | None = None
        self._is_over = False

    @property
    def is_to_end(self) -> bool:
        """Whether the store must be told that nothing is wanted any more."""
        return self._is_over and self._seq is not None and self._is_answered

    def end(self) -> None:
        self._is_over = True

    def leaves(self, tick: Tick) -> float:
        """A tick leaves, and names the want that stood. When the tick of that want had left."""
        left = self._left
        if tick.want is None and not self._is_over:
            return left
        if self._seq is not None and not self._is_answered:
            # The store may see either first, so this one neither stands nor ends the other.
            if tick.want is not None:
                tick.want = replace(tick.want, stands=0)
            return left
        tick.stood, self._seq = self._seq, None
        if tick.want is not None and tick.want.stands:
            self._seq, self._left = tick.seq, surroundings.now()
            self._is_answered, self._early = False, None
        return left

    def answered(self, tick: Tick, ticked: Ticked) -> list[JobRecord]:
        """A tick was answered. Gives what has come by itself before, and is not in the answer."""
        if self._seq != tick.seq:
            return []
        self._is_answered = True
        early, self._early = self._early, None
        if early is not None:
            self._take([], self._left)
        if not ticked.stands:
            self._seq = None
            return []
        if early is None or not early.claimed:
            return []
        self._seq = None
        return early.claimed

    def refused(self, tick: Tick, left: float) -> None:
        """The store would not take the tick: the want before it may still stand, or be fulfilled."""
        if self._seq == tick.seq or (self._seq is None and tick.stood is not None):
            self._seq, self._left = tick.stood, left
            self._is_answered, self._early = True, None

    def receive(self, handed: Handed) -> None:
        """Something came by itself."""
        if handed.worker != self._worker or handed.seq != self._seq:
            return
        if not self._is_answered:
            self._early = handed
            return
        if handed.claimed:
            self._seq = None
        self._take(handed.claimed, min(surroundings.now(), self._left + handed.after / SECOND))
