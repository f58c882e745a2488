"""One queue: its waiting jobs in the order in which they are served, and its counts."""

from collections import deque
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from holdfast.model.lifecycle import State

Ready: TypeAlias = tuple[int, int, str]
"""Priority, due time or rank, id of a job that is ready."""

Later: TypeAlias = tuple[int, str]
"""Due time and id of a job that is not due yet."""

Parked: TypeAlias = tuple[int, int, str, str]
"""The same of a job that is held back, and where."""

Entry: TypeAlias = Ready | Later | Parked


class Line:
    """Ready jobs of one task, in order.

    Most arrive in the order in which they leave, and for these a plain run is faster than the heap that takes
    the rest.
    """

    __slots__ = ("_heap", "_run")

    def __init__(self) -> None:
        self._run: deque[Ready] = deque()
        self._heap: list[Ready] = []

    def push(self, entry: Ready) -> None:
        run = self._run
        if not run or run[-1] < entry:
            run.append(entry)
        else:
            heappush(self._heap, entry)

    def first(self) -> Ready | None:
        run, heap = self._run, self._heap
        if not heap:
            return run[0] if run else None
        return run[0] if run and run[0] < heap[0] else heap[0]

    def first_of(self, priority: int, entries: dict[str, Entry]) -> int | None:
        """The due time or rank of the first job of a priority."""
        first = self.first()
        if first is not None and first[0] == priority and entries.get(first[2]) is first:
            return first[1]
        waiting = [*self._run, *self._heap]
        ranks = (each[1] for each in waiting if each[0] == priority and entries.get(each[2]) is each)
        return min(ranks, default=None)

    def standing(self, entries: dict[str, Entry]) -> Iterator[Ready]:
        """All that stand in the entries, in no order."""
        for waiting in (self._run, self._heap):
            yield from (each for each in waiting if entries.get(each[2]) is each)

    def drop_first(self) -> Ready | None:
        """Takes away the first; the one that is then first."""
        run, heap = self._run, self._heap
        if heap and not (run and run[0] < heap[0]):
            heappop(heap)
        else:
            run.popleft()
        return self.first()

    def keep_only(self, entries: dict[str, Entry]) -> None:
        """Drops what does not stand in the entries."""
        self._run = deque(entry for entry in self._run if entries.get(entry[2]) is entry)
        self._heap = [entry for entry in self._heap if entries.get(entry[2]) is entry]
        heapify(self._heap)


class Lane:
    """The data of one queue.

    The lines are apart by task, so that jobs of a task that no worker knows cost nothing to those that ask
    for others. An entry counts only while the shelf's `entries` has that very object for its job: what is
    edited or deleted leaves its entry behind, and that is cheaper than taking it out.
    """

    __slots__ = (
        "counts",
        "due",
        "has_priorities",
        "later",
        "lines",
        "parked",
        "paused_since",
        "was_paused",
    )

    def __init__(self) -> None:
        self.lines: dict[str, Line] = {}
        self.later: list[Later] = []
        self.counts: dict[State, int] = dict.fromkeys(State, 0)
        self.due: dict[State, int] = {State.SCHEDULED: 0, State.RETRY: 0}
        self.parked: dict[State, int] = {State.SCHEDULED: 0, State.RETRY: 0}
        self.paused_since: int | None = None
        self.was_paused = False
        self.has_priorities = False
        """Whether a job with another priority than 0 was ever ready."""

    @property
    def paused(self) -> bool:
        return self.paused_since is not None

    def firsts(self, entries: dict[str, Entry]) -> list[str]:
        """The ready jobs that come first in their priority."""
        found: dict[int, tuple[int, str]] = {}
        for line in self.lines.values():
            head = line.first()
            is_head_enough = not self.has_priorities and head is not None and entries.get(head[2]) is head
            for priority, rank, job_id in [head] if is_head_enough and head else line.standing(entries):
                if priority not in found or (rank, job_id) < found[priority]:
                    found[priority] = rank, job_id
        return [job_id for _, job_id in found.values()]

    def keep_only(self, entries: dict[str, Entry]) -> None:
        """Drops what was left behind."""
        self.later = [entry for entry in self.later if entries.get(entry[1]) is entry]
        heapify(self.later)
        for line in self.lines.values():
            line.keep_only(entries)
