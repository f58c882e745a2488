"""Counts of jobs that cost no more with many: what is more than can be counted at once is estimated.

Finished jobs have a tally. Of those that wait, each queue is counted up to a bound; where there are more, a
sample of the table tells about how many.
"""

from collections import Counter
from typing import Any

from holdfast.model.records import QueueCount
from holdfast.stores.postgres.database import Database
from holdfast.stores.postgres.queries import Queries
from holdfast.stores.postgres.rows import state_of

SAMPLED = 400
"""So many pages of the table are looked at, of all that it has."""

_READY, _LATER, _PARKED = "ready", "later", "parked"

Line = tuple[str, int]
"""Queue and state."""


async def count_all(database: Database, queries: Queries, ns: int) -> list[QueueCount]:
    rows = await database.rows(queries.count, ns)
    return [
        QueueCount(queue=queue, state=state_of(state), count=count, due=due, parked=parked)
        for queue, state, count, due, parked in rows
    ]


async def count_some(database: Database, queries: Queries, ns: int, most: int) -> list[QueueCount]:
    """With no more than about `most` waiting jobs counted one by one."""
    found = _Counts()
    cut: set[tuple[str, str]] = set()
    sizes: Counter[tuple[str, str]] = Counter()
    rows = await database.rows(queries.count_some, ns, most)
    for kind, queue, _, jobs, _, bound in rows:
        place = kind, "" if kind == _PARKED else queue
        sizes[place] += jobs
        if bound is not None and sizes[place] >= bound:
            cut.add(place)
    for kind, queue, state, jobs, due, _ in rows:
        if (kind, "" if kind == _PARKED else queue) not in cut:
            found.add(kind, queue, state, jobs, due)
    if cut:
        missed = found.estimate(cut, sizes, *await _sample(database, queries, ns))
        for kind, queue, state, jobs, due, _ in rows:
            # The sample has none of them: then they are not many more than were counted.
            if (kind, "" if kind == _PARKED else queue) in missed:
                found.add(kind, queue, state, jobs, due, exact=False)
    return found.told()


async def _sample(database: Database, queries: Queries, ns: int) -> tuple[list[Any], float]:
    """What a part of the table has, and how many times that is the whole."""
    pages = max(1, await database.value(queries.job_pages))
    percent = min(100.0, 100.0 * SAMPLED / pages)
    return await database.rows(queries.count_sample, ns, percent), 100.0 / percent


class _Counts:
    def __init__(self) -> None:
        self._jobs: Counter[Line] = Counter()
        self._due: Counter[Line] = Counter()
        self._parked: Counter[Line] = Counter()
        self._estimated: set[Line] = set()

    def add(self, kind: str, queue: str, state: int, jobs: int, due: int, *, exact: bool = True) -> None:
        if not exact:
            self._estimated.add((queue, state))
        self._jobs[queue, state] += jobs
        self._due[queue, state] += due
        if kind == _PARKED:
            self._parked[queue, state] += jobs

    def estimate(
        self, cut: set[tuple[str, str]], least: Counter[tuple[str, str]], sample: list[Any], times: float
    ) -> set[tuple[str, str]]:
        """Fills in what was cut off: as much as was counted, or as the sample tells if that is more.

        Gives those that the sample has nothing of.
        """
        seen: Counter[tuple[str, str]] = Counter()
        for kind, queue, _, jobs, _ in sample:
            seen[kind, "" if kind == _PARKED else queue] += jobs
        for kind, queue, state, jobs, due in sample:
            place = kind, "" if kind == _PARKED else queue
            if place in cut:
                share = max(times, least[place] / seen[place])
                self.add(kind, queue, state, round(jobs * share), round(due * share), exact=False)
        return cut - seen.keys()

    def told(self) -> list[QueueCount]:
        return [
            QueueCount(
                queue=queue,
                state=state_of(state),
                count=jobs,
                due=self._due[queue, state],
                parked=self._parked[queue, state],
                exact=(queue, state) not in self._estimated,
            )
            for (queue, state), jobs in sorted(self._jobs.items())
            if jobs
        ]
