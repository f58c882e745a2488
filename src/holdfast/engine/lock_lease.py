"""The lease of a lock that this process holds, shared by its holder and the thread that renews it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from holdfast.engine import surroundings
from holdfast.engine.forks import generation
from holdfast.engine.hold import Terms
from holdfast.model.timing import SECOND


class Lost:
    """Whether a lock is lost: true or false, and to be waited for by threads.

    True from the moment when the lock can no longer be trusted, even before anybody could be told. Once true,
    it stays so, whatever the store answers later.
    """

    def __init__(self, is_over: Callable[[], bool]) -> None:
        self._is_over = is_over
        self._told = threading.Event()

    def __bool__(self) -> bool:
        if self._is_over():
            self._told.set()
        return self._told.is_set()

    def is_set(self) -> bool:
        return bool(self)

    def wait(self, timeout: float | None = None) -> bool:
        """Blocks until the lock is lost, or `timeout` seconds have passed; whether it is lost."""
        return bool(self) or self._told.wait(timeout) or bool(self)

    def tell(self) -> None:
        self._told.set()


class LockLease:
    """A lease, trusted until a little before its end, counted from when the call that got it was sent.

    `tell` is called once, on any thread, when it is lost. Times are those of `surroundings.now`.
    """

    def __init__(self, name: str, owner: str, token: int, ttl: int, sent: float) -> None:
        length = ttl / SECOND
        self.name = name
        self.owner = owner
        self.token = token
        self.ttl = ttl
        self.terms = Terms(
            lease=length, trust=length - min(1.0, length / 20), beat=length / 3, patience=length / 6
        )
        self.since = surroundings.now()
        self.is_released = False
        self.lost = Lost(self._is_over)
        self.tell: Callable[[], None] | None = None
        self._generation = generation()
        self.extended(sent)

    @property
    def is_ours(self) -> bool:
        """False in a fork of the process that the lock was granted to."""
        return self._generation == generation()

    def extended(self, sent: float) -> None:
        self.trust_until = sent + self.terms.trust
        self.beat_due = sent + self.terms.beat

    def missed(self) -> None:
        """Says that a renewal failed: the next one comes soon."""
        self.beat_due = surroundings.now() + self.terms.lease / 20

    def lose(self) -> None:
        self.lost.tell()
        if self.tell is not None:
            self.tell()

    def facts(self) -> dict[str, object]:
        """What every log line about it says."""
        return {"lock": self.name, "token": self.token}

    def _is_over(self) -> bool:
        return not self.is_released and (surroundings.now() >= self.trust_until or not self.is_ours)
