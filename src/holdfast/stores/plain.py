"""The moves of a tick, sorted into those so usual that a store treats them all alike, and the others."""

from collections.abc import Sequence

from holdfast.model.lifecycle import SUCCEEDED, WAITING, Ending
from holdfast.model.records import Move, Verdict

_SUCCESS = Ending.SUCCESS


def is_plain(move: Move) -> bool:
    """Whether the move is a success with nothing to tell but its result."""
    return (
        move.outcome is _SUCCESS
        and move.path == SUCCEEDED
        and not move.children
        and not move.events
        and not move.if_expired
        and not move.failures
        and not move.lost
        and not move.suspect
        and move.reason is None
        and move.error is None
    )


def may_wake(moves: Sequence[Move]) -> bool:
    """Whether a move makes work for others: children, events, or a job that waits again."""
    return any(move.children or move.events or not WAITING.isdisjoint(move.path) for move in moves)


def sorted_out(moves: Sequence[Move]) -> tuple[list[int], list[int]]:
    """The places of the plain moves, and of those to be done one by one.

    The order of moves matters where two are of one job, or where a child's key may be freed by another move;
    then all are done one by one.
    """
    plain: list[int] = []
    others: list[int] = []
    for place, move in enumerate(moves):
        (plain if is_plain(move) else others).append(place)
    if plain and (
        any(child.key is not None for place in others for child in moves[place].children)
        or len({move.job for move in moves}) < len(moves)
    ):
        return [], list(range(len(moves)))
    return plain, others


def verdicts(plain: list[int], refused: Sequence[int], others: list[int], letters: str) -> list[Verdict]:
    """The verdicts in the order of the moves.

    `refused` counts from 0 among the plain ones; the others have a letter each, `r` if it was refused.
    """
    found = [Verdict.ACCEPTED] * (len(plain) + len(others))
    for place in refused:
        found[plain[place]] = Verdict.REFUSED
    for place, letter in zip(others, letters, strict=True):
        if letter == "r":
            found[place] = Verdict.REFUSED
    return found
