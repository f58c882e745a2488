"""The states of a job, and which may follow which."""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
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


def read_ending(word: str, reason: str | None) -> tuple[Ending, str | None]:
    """How a stored attempt ended, and why. A word that is not known here is told as a failure, and shown."""
    try:
        return Ending(word), reason
    except ValueError:
        return Ending.FAILED, f"unknown outcome {ascii(word)[:60]}" + (f": {reason}" if reason else "")


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
EDITABLE = frozenset({State.SCHEDULED, State.RETRY, State.DLQ})
PRUNABLE = FINISHED - {State.DLQ}

Path = tuple[State, ...]

STARTED: Path = (State.CLAIMED, State.RUNNING)
SUCCEEDED: Path = (State.CLAIMED, State.RUNNING, State.SUCCESS)
RETRIED: Path = (State.CLAIMED, State.RUNNING, State.FAILED, State.RETRY)
RELEASED_AT_ONCE: Path = (State.CLAIMED, State.RUNNING, State.FAILED, State.SCHEDULED)
DEAD_LETTERED: Path = (State.CLAIMED, State.RUNNING, State.FAILED, State.DLQ)
FAILED_FOR_GOOD: Path = (State.CLAIMED, State.RUNNING, State.FAILED)
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


@lru_cache(maxsize=512)
def move_sources(path: Path, ends: bool) -> frozenset[State]:
    """The leased states from which a holder's move may go along the path; none if no move may.

    The path of a start stays in leased states; that of a move which ends the attempt begins there, leaves,
    and does not come back.
    """
    left = [state for state in path if state not in LEASED]
    held = path[: len(path) - len(left)]
    if not _is_legal(path) or not LEASED.issuperset(held) or bool(left) is not ends:
        return frozenset()
    return frozenset(held if ends else held[:-1])


@lru_cache(maxsize=512)
def edit_source(path: Path) -> State | None:
    """The state in which a job must stand to be edited along the path; None if no edit may go there."""
    return path[0] if _is_legal(path) and LEASED.isdisjoint(path) else None


def _is_legal(path: Path) -> bool:
    return len(path) > 1 and all(after in TRANSITIONS[before] for before, after in pairwise(path))
