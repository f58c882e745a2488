"""The ranks of jobs with fair keys. Called with the store's lock held."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from holdfast.model.flow import STRIDE
from holdfast.model.records import NewJob

Place: TypeAlias = tuple[str, int]
"""Queue and priority."""


class Ranks:
    """Where the fair keys of each queue stand: `last` by queue and key, `highest` by queue."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], int] = {}
        self._highest: dict[str, int] = {}

    def floors(
        self, jobs: Sequence[NewJob], first: Callable[[Place], int | None], now: int
    ) -> dict[Place, int]:
        """How the queues of those jobs stand that have a fair key; `first` gives the lowest that is ready."""
        places = {
            (job.queue, job.priority)
            for job in jobs
            if job.flow is not None and job.flow.fair_key is not None
        }
        found: dict[Place, int] = {}
        for place in places:
            lowest = first(place)
            found[place] = max(self._highest.get(place[0], now), now) if lowest is None else lowest
        return found

    def draw(self, queue: str, key: str, floor: int, weight: float) -> int:
        """The rank of the next job of a key."""
        rank = max(floor, self._last.get((queue, key), floor)) + int(STRIDE / weight)
        self._last[queue, key] = rank
        self._highest[queue] = max(rank, self._highest.get(queue, rank))
        return rank
