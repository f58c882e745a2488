"""Where claims begin while an old transaction keeps dead entries in the index.

A claim passes the entries of all jobs that were claimed before, until the server can remove them. Normally
that is at once. While somebody holds a transaction open it is not, and claims would become slower with every
job. So when one has read many entries for few jobs, the next ones begin behind what was claimed last. Jobs
that come to stand before that, because of their priority or due time, wait for the next claim that begins at
the front: it comes soon, and tells whether this is still needed.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from holdfast.model.records import JobRecord
from holdfast.stores.postgres.rows import rank_of

MANY: Final = 2_000
"""So many entries may be passed in vain."""

SHORT_SECONDS: Final = 1.0
LONG_SECONDS: Final = 10.0
TURNS: Final = 150
"""A claim begins at the front after SHORT_SECONDS and so many turns, and after LONG_SECONDS in any case.

It passes all dead entries, tens of milliseconds after minutes of load: less than one in a hundred may.
"""


class Floors:
    """What one session knows of it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._floors: dict[str, dict[int, tuple[int, str]]] = {}
        self._latest: Sequence[JobRecord] = ()
        self._due: int | None = None
        self._since = 0.0
        self._turns = 0
        self.is_crowded = False
        """Whether the last claim that began at the front passed many entries in vain."""

    def begin(self) -> tuple[str | None, int | None]:
        """Where the next claim shall begin: floors as JSON, and the instant; None for the front."""
        if not self._floors:
            return None, None
        self._turns += 1
        age = self._clock() - self._since
        if age > LONG_SECONDS or (age > SHORT_SECONDS and self._turns > TURNS):
            self._floors = {}
            return None, None
        floors = {
            queue: [[priority, *place] for priority, place in sorted(places.items())]
            for queue, places in self._floors.items()
        }
        return msgspec.json.encode(floors).decode(), self._due

    def learn(self, read: int, claimed: Sequence[JobRecord], ready_until: int | None) -> None:
        """Learns from an answer: how many entries it read, and what it claimed, in order.

        `ready_until` is an instant up to which all that was due is ready; None if some of it is not yet.
        """
        self._latest = claimed or self._latest
        if not self._floors:
            self.is_crowded = read - len(claimed) >= MANY
            if not self.is_crowded:
                return
            claimed = self._latest
            self._since = self._clock()
            self._turns = 0
            self._due = ready_until
        for job in claimed:
            self._floors.setdefault(job.queue, {})[job.priority] = (rank_of(job), job.id)
