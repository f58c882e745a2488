"""What happened in a simulation: its last lines for people, and all of it as one short text."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import msgspec

MOST = 300
_encode = msgspec.json.Encoder(order="deterministic").encode


class Trace:
    """Two simulations with the same `digest` went the same way."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._hash = blake2b(digest_size=16)
        self._lines: deque[tuple[float, str, str, Any]] = deque(maxlen=MOST)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def count(self, who: str, what: str) -> None:
        """Something happened that is of no interest by itself."""
        self._hash.update(f"{self._clock():.6f} {who} {what}\n".encode())

    def note(self, who: str, what: str, facts: Any = None) -> None:
        self.count(who, what)
        if facts is not None:
            self._hash.update(_encode(facts))
        self._lines.append((self._clock(), who, what, facts))

    def lines(self, about: str = "", most: int = 40) -> list[str]:
        """The last lines, or the last that contain the text."""
        told = (f"{when:14.6f}  {who:<12} {what} {_shown(facts)}" for when, who, what, facts in self._lines)
        return [line for line in told if about in line][-most:]


def _shown(facts: Any) -> str:
    return "" if facts is None else str(facts)[:1_000]
