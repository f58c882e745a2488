"""Counts what somebody tries, and says when it is too much."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

_MOST_KNOWN = 10_000


class Throttle:
    """Lets `most` tries through at once, and after that one every `seconds / most`, for each name.

    Of more names than it can remember it forgets those that it has not seen for longest.
    """

    def __init__(self, most: int, seconds: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._pause = seconds / most
        self._clock = clock
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def wait(self, name: str) -> float:
        """0 if another try may be made now, and is counted; else how many seconds until then."""
        now = self._clock()
        full_at = max(now, self._full_at.get(name, now))
        over = full_at + self._pause - (now + self._most * self._pause)
        if over > 0:
            return over
        self._full_at[name] = full_at + self._pause
        self._full_at.move_to_end(name)
        if len(self._full_at) > _MOST_KNOWN:
            self._full_at.popitem(last=False)
        return 0.0

    def forgive(self, name: str) -> None:
        """Forgets what was tried under the name."""
        self._full_at.pop(name, None)
