"""Which job comes next: drawn from the seed and the job's number, so that a repeat is the same job.

Shares are those of many jobs. What blocks, kills or runs long is bounded in number: most of it is met by a
fault, becomes suspect, and keeps other suspects waiting while it runs again.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Final

from holdfast.torture.programs.witness import CANARY
from holdfast.torture.programs.workload import RETRIES

LEASE: Final = 2.0
SHARES: Final = {
    "medium": 0.12,
    "entry": 0.16,
    "entry_in_thread": 0.04,
    "in_thread": 0.03,
    "stumbles": 0.05,
    "doomed": 0.03,
}
BOUNDED: Final = {
    "long": (0.003, 200),
    "in_process": (0.005, 400),
    "hogs": (0.0003, 10),
    "kills": (0.0003, 6),
    "hoards": (0.0005, 12),
}
"""A share, and the most of a campaign. All that is left are short ones."""

KEYED: Final = 0.5


@dataclass(frozen=True, slots=True)
class Wanted:
    """A job to be enqueued: its task and arguments, and under which key, if any."""

    task: str
    args: tuple[Any, ...]
    key: str | None


class Mix:
    """The jobs of one campaign by their numbers."""

    def __init__(self, seed: str, jobs: int) -> None:
        self._seed = seed
        bounded = {task: min(share, most / jobs) for task, (share, most) in BOUNDED.items()}
        self._shares = {**SHARES, **bounded}

    def job(self, series: str, number: int) -> Wanted:
        """The job of that number. A series is a producer's own, or one that all of them share."""
        draw = random.Random(f"{self._seed} {series} {number}")
        task = self._task(draw.random())
        key = f"{series}-{number}" if series == SHARED or draw.random() < KEYED else None
        return Wanted(task, (number, *_more(task, draw)), key)

    def _task(self, drawn: float) -> str:
        for task, share in self._shares.items():
            if drawn < share:
                return task
            drawn -= share
        return "short"


SHARED: Final = "shared"


def _more(task: str, draw: random.Random) -> tuple[Any, ...]:
    """What a task is given beside the number."""
    match task:
        case "short":
            return (CANARY,)
        case "medium":
            return (draw.uniform(0.1, 0.5),)
        case "long":
            return (draw.uniform(3 * LEASE, 3.5 * LEASE),)
        case "in_thread":
            return (draw.uniform(0.01, 0.2),)
        case "in_process":
            return (draw.uniform(0.01, 0.5),)
        case "stumbles":
            return (draw.randint(1, RETRIES),)
        case "hogs":
            return (draw.uniform(1.2 * LEASE, 1.6 * LEASE),)
        case _:
            return ()
