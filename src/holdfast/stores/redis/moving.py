"""Moves on their way in: plain successes in the shortest form, all others one by one."""

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.model.lifecycle import move_sources
from holdfast.model.records import Move, Verdict
from holdfast.stores.plain import sorted_out, verdicts
from holdfast.stores.redis.adding import flat, has_flow
from holdfast.stores.redis.appending import flat_events
from holdfast.stores.redis.records import CODES, NULL, clean

NO_RESULT, NULL_RESULT = 0, -1
"""In place of a result's place: none, and the one of most tasks, for which a bit is enough."""

_encode = msgspec.msgpack.encode


class Batch:
    """The moves of one tick, and the bytes that they refer to, which are arguments from the `first` on."""

    __slots__ = ("_others", "_plain", "has_events", "has_flow", "others", "plain", "values")

    def __init__(self, moves: Sequence[Move], first: int) -> None:
        plain, others = sorted_out(moves)
        self.has_flow = any(has_flow(move.children) for move in moves)
        if self.has_flow:  # who is before whom depends on the order
            plain, others = [], list(range(len(moves)))
        self._plain = plain
        self._others = others
        self.values: list[bytes] = []
        self.plain = self._packed([moves[place] for place in plain], first) if plain else b""
        self.others = b""
        self.has_events = False
        if others:
            self.has_events = any(moves[place].events for place in others)
            self.others = _encode([_as_dict(moves[place], first, self.values) for place in others])

    def _packed(self, moves: list[Move], first: int) -> bytes:
        told: list[Any] = []
        for move in moves:
            told += (move.job, move.token, -1 if move.elapsed is None else move.elapsed)
            if move.result is None:
                told.append(NO_RESULT)
            elif move.result == NULL:
                told.append(NULL_RESULT)
            else:
                told.append(first + len(self.values))
                self.values.append(move.result)
        return _encode(told)

    def script(self, is_repeat: bool, flows: int) -> str:
        """The least that does all of this, where nothing, limits, or sequences too hold jobs back."""
        if flows or self.has_flow:
            return "tick_flow" if self.others or is_repeat or flows > 1 else "tick_pass"
        if self.has_events:
            return "tick_events"
        return "tick" if self.others or is_repeat else "tick_plain"

    def verdicts(self, refused: list[int], others: bytes) -> list[Verdict]:
        """The verdicts in the order of the moves."""
        return verdicts(self._plain, [place - 1 for place in refused], self._others, others.decode())


def _as_dict(move: Move, first: int, others: list[bytes]) -> dict[str, Any]:
    sources = move_sources(move.path, move.outcome is not None)
    result = None
    if move.result is not None:
        result = first + len(others)
        others.append(move.result)
    told = {
        "job": move.job,
        "token": move.token,
        "from": "".join(str(CODES[state]) for state in sources),
        "to": CODES[move.path[-1]] if move.path else 0,
        "outcome": move.outcome,
        "elapsed": move.elapsed,
        "delay": move.delay,
        "failures": move.failures,
        "lost": move.lost,
        "suspect": move.suspect,
        "reason": clean(move.reason),
        "error": clean(move.error),
        "result": result,
        "if_expired": move.if_expired,
        "children": flat(move.children, first, others),
    }
    if move.events:
        told["events"] = flat_events(move.events, first, others)
    return told
