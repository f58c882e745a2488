"""Time that moves only when it is told to."""

import time

from holdfast.model.timing import SECOND, Seconds, seconds


class ManualClock:
    """A clock for stores under test: calling it gives microseconds since 1970.

    It starts at the present moment unless told otherwise, and never goes back.
    """

    def __init__(self, start: int | None = None) -> None:
        self._now = time.time_ns() // 1_000 if start is None else start

    def __call__(self) -> int:
        return self._now

    def now(self) -> int:
        return self._now

    def advance(self, by: Seconds) -> None:
        """Lets `by` seconds pass, rounded to whole microseconds."""
        step = round(seconds(by) * SECOND)
        if step < 0:
            raise ValueError(f"a store's clock never goes back, and {by!r} would take it there")
        self._now += step
