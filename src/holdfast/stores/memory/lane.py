"""One queue: its waiting jobs in the order in which they are served, and its counts."""

from typing import TypeAlias

from holdfast.model.lifecycle import State

Ready: TypeAlias = tuple[int, int, str]
"""Priority, due time, id of a job that is due."""

Later: TypeAlias = tuple[int, str]
"""Due time and id of a job that is not due yet."""

Entry: TypeAlias = Ready | Later


class Lane:
    """The data of one queue.

    The heaps are apart by task, so that jobs of a task that no worker knows cost nothing to those that ask
    for others. An entry counts only while the shelf's `entries` has that very object for its job: what is
    edited or deleted leaves its entry behind, and that is cheaper than taking it out.
    """

    __slots__ = ("counts", "due", "later", "paused", "ready", "was_paused")

    def __init__(self) -> None:
        self.ready: dict[str, list[Ready]] = {}
        self.later: list[Later] = []
        self.counts: dict[State, int] = dict.fromkeys(State, 0)
        self.due: dict[State, int] = {State.SCHEDULED: 0, State.RETRY: 0}
        self.paused = False
        self.was_paused = False
