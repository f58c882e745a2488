"""Moves on their way in: as JSON, with their bytes beside it."""

from collections.abc import Sequence
from typing import Any

from holdfast.model.lifecycle import move_sources
from holdfast.model.records import Move, Verdict
from holdfast.stores.mssql.adding import as_dicts
from holdfast.stores.mssql.appending import as_dicts as events_as_dicts
from holdfast.stores.mssql.rows import CODES, Bytes, as_json
from holdfast.stores.mssql.texts import Texts
from holdfast.stores.plain import sorted_out

_VERDICTS = {"a": Verdict.ACCEPTED, "r": Verdict.REFUSED}


class Batch:
    """The moves of one tick. Those that are plain successes are done all at once, before the others."""

    def __init__(self, moves: Sequence[Move], *, joined: bool = False) -> None:
        held, texts = Bytes(), Texts()
        plain, _ = sorted_out(moves)
        at_once: set[int] = set() if joined else set(plain)
        told = [
            _as_dict(n, move, held, texts) | {"is_plain": n in at_once, "joined": joined}
            for n, move in enumerate(moves)
        ]
        self.moves = as_json(told) if told else None
        self.bytes = held.whole()
        self.texts = texts.whole()


def verdicts(letters: str) -> list[Verdict]:
    return [_VERDICTS[letter] for letter in letters]


def _as_dict(n: int, move: Move, held: Bytes, texts: Texts) -> dict[str, Any]:
    sources = move_sources(move.path, move.outcome is not None)
    told: dict[str, Any] = {
        "n": n,
        "job": move.job,
        "token": move.token,
        "sources": "".join(str(CODES[state]) for state in sources),
        "to": CODES[move.path[-1]] if move.path else 0,
        "outcome": move.outcome,
        "elapsed": move.elapsed,
        "delay": move.delay,
        "failures": move.failures,
        "lost": move.lost,
        "suspect": move.suspect,
        "reason": texts.put(move.reason),
        "error": texts.put(move.error),
        **held.put("result", move.result),
        "if_expired": move.if_expired,
    }
    if move.children:
        told["children"] = as_dicts(move.children, held, joined=True)
    if move.events:
        told["events"] = events_as_dicts(move.events, held)
    return told
