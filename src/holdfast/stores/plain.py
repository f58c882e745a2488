"""Which moves are so usual that a store may treat them all alike."""

from collections.abc import Sequence

from holdfast.model.lifecycle import SUCCEEDED, WAITING, Ending
from holdfast.model.records import Move

_SUCCESS = Ending.SUCCESS


def is_plain(move: Move) -> bool:
    """Whether the move is a success with nothing to tell but its result."""
    return (
        move.outcome is _SUCCESS
        and move.path == SUCCEEDED
        and not move.children
        and not move.if_expired
        and not move.failures
        and not move.lost
        and not move.suspect
        and move.reason is None
        and move.error is None
    )


def may_wake(moves: Sequence[Move]) -> bool:
    """Whether a move makes work for others: children, or a job that waits again."""
    return any(move.children or not WAITING.isdisjoint(move.path) for move in moves)
