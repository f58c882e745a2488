"""The states of a job, and which may follow which."""

from __future__ import annotations

from enum import StrEnum
from itertools import pairwise

from holdfast.model.errors import InvalidTransition


class State(StrEnum):
    """Where a job stands."""

    SCHEDULED = "scheduled"
    CLAIMED = "claimed"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    RETRY = "retry"
    DLQ = "dlq"
    CANCELLED = "cancelled"


class Ending(StrEnum):
    """How one attempt ended, as history tells it."""

    SUCCESS = "success"
    FAILED = "failed"
    RETRY = "retry"
    RELEASED = "released"
    LOST = "lost"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"


TRANSITIONS: dict[State, frozenset[State]] = {
    State.SCHEDULED: frozenset({State.CLAIMED, State.CANCELLED}),
    State.CLAIMED: frozenset({State.RUNNING, State.SCHEDULED, State.FAILED, State.CANCELLED}),
    State.RUNNING: frozenset({State.SUCCESS, State.FAILED, State.RETRY, State.SCHEDULED, State.CANCELLED}),
    State.FAILED: frozenset({State.DLQ, State.RETRY, State.SCHEDULED}),
    State.RETRY: frozenset({State.SCHEDULED, State.CANCELLED}),
    State.DLQ: frozenset({State.SCHEDULED}),
    State.SUCCESS: frozenset(),
    State.CANCELLED: frozenset(),
}

WAITING = frozenset({State.SCHEDULED, State.RETRY})
LEASED = frozenset({State.CLAIMED, State.RUNNING})
FINISHED = frozenset({State.SUCCESS, State.FAILED, State.DLQ, State.CANCELLED})

Path = tuple[State, ...]

STARTED: Path = (State.CLAIMED, State.RUNNING)
SUCCEEDED: Path = (State.CLAIMED, State.RUNNING, State.SUCCESS)
RETRIED: Path = (State.CLAIMED, State.RUNNING, State.FAILED, State.RETRY)
RELEASED_AT_ONCE: Path = (State.CLAIMED, State.RUNNING, State.FAILED, State.SCHEDULED)
DEAD_LETTERED: Path = (State.CLAIMED, State.RUNNING, State.FAILED, State.DLQ)
FAILED_FOR_GOOD: Path = (State.CLAIMED, State.RUNNING, State.FAILED)
UNDECODABLE: Path = (State.CLAIMED, State.FAILED, State.DLQ)
RETURNED: Path = (State.CLAIMED, State.SCHEDULED)
INTERRUPTED: Path = (State.CLAIMED, State.RUNNING, State.SCHEDULED)
CANCELLED_UNSTARTED: Path = (State.CLAIMED, State.CANCELLED)
CANCELLED_RUNNING: Path = (State.CLAIMED, State.RUNNING, State.CANCELLED)
REPLAYED: Path = (State.DLQ, State.SCHEDULED)


def check_path(path: Path) -> None:
    """Raises InvalidTransition unless each state of the path may follow the one before it."""
    if len(path) < 2:
        raise InvalidTransition(f"a path needs at least two states, got {list(path)}")
    for before, after in pairwise(path):
        if after not in TRANSITIONS[before]:
            allowed = ", ".join(sorted(TRANSITIONS[before])) or "nothing"
            raise InvalidTransition(f"{before} cannot become {after}; from {before} only {allowed}")
