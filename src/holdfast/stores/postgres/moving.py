"""Moves on their way in: plain successes as arrays by id, all others as JSON."""

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.model.lifecycle import move_sources
from holdfast.model.records import Move, Verdict
from holdfast.stores.plain import sorted_out, verdicts
from holdfast.stores.postgres.adding import as_json
from holdfast.stores.postgres.appending import as_json as events_as_json
from holdfast.stores.postgres.rows import CODES, clean, to_hex

_encode = msgspec.json.encode


class Batch:
    """The moves of one tick, sorted into what the server does at once and what it does one by one."""

    __slots__ = ("_others", "_plain", "moves", "plain")

    def __init__(self, moves: Sequence[Move]) -> None:
        plain, others = sorted_out(moves)
        plain.sort(key=lambda place: moves[place].job)
        if len(others) > 1 and len({move.job for move in moves}) == len(moves):
            # Starts come last and by id: a heartbeat writes the same rows in that order.
            others.sort(key=lambda place: (moves[place].outcome is None, _start(moves[place])))
        self._plain = plain
        self._others = others
        self.plain = _arrays([moves[place] for place in plain]) if plain else (None, None, None, None)
        self.moves = _encode([as_dict(moves[place]) for place in others]).decode() if others else None

    def verdicts(self, refused: list[int] | None, others: str | None) -> list[Verdict]:
        """The verdicts in the order of the moves."""
        return verdicts(self._plain, refused or (), self._others, others or "")


def _start(move: Move) -> str:
    return move.job if move.outcome is None else ""


def _arrays(moves: list[Move]) -> tuple[list[Any], list[Any], list[Any], list[Any] | None]:
    results = [move.result for move in moves]
    if results.count(results[0]) == len(results):
        # One stands for all: to encode a list costs more than anything else on its way.
        results = results[:1]
    return (
        [move.job for move in moves],
        [move.token for move in moves],
        [move.elapsed for move in moves],
        results if results != [None] else None,
    )


def as_dict(move: Move, *, joined: bool = False) -> dict[str, Any]:
    """The move for the server's `move`."""
    sources = move_sources(move.path, move.outcome is not None)
    told: dict[str, Any] = {
        "job": move.job,
        "token": move.token,
        "from": [CODES[state] for state in sources],
        "to": CODES[move.path[-1]] if move.path else 0,
        "outcome": move.outcome,
        "elapsed": move.elapsed,
        "delay": move.delay,
        "failures": move.failures,
        "lost": move.lost,
        "suspect": move.suspect,
        "reason": clean(move.reason),
        "error": clean(move.error),
        "result": to_hex(move.result),
        "if_expired": move.if_expired,
        "children": as_json(move.children, joined=joined) if move.children else None,
    }
    if move.events:
        told["events"] = events_as_json(move.events)
    return told
