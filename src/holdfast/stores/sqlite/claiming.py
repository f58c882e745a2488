"""What a tick does besides its moves: it claims, and tells the worker how things stand."""

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.model.lifecycle import WAITING
from holdfast.model.records import JobRecord, Tick, Ticked, Verdict, Want
from holdfast.stores.sqlite.feed import as_json
from holdfast.stores.sqlite.moving import apply_moves
from holdfast.stores.sqlite.transaction import Transaction

_decode_names = msgspec.json.Decoder(list[str]).decode
_decode_pairs = msgspec.json.Decoder(list[tuple[str, int]]).decode


def tick(tx: Transaction, tick: Tick, *, is_new: bool) -> Ticked:
    """Moves, then claims. `is_new` says that this worker cannot hold anything by this seq yet."""
    verdicts = apply_moves(tx, tick.worker, tick.moves)
    want = tick.want
    parameters = asking(tick)
    if want is None:
        return situation(tx.row("situation_alone", **parameters), tx.now, want, verdicts, [])
    before: set[str] = set()
    if not is_new:
        before = set(_decode_names(tx.row("held_by_tick", **parameters)[0]))
    tx.run("promote", **parameters)
    gives_back = tick.repeat and bool(before)
    if not gives_back:
        _claim(tx, want, parameters)
    claimed, more = tx.jobs_and_more("answer", **parameters)
    if not gives_back and before:
        claimed = [record for record in claimed if record.id not in before]
    places = {queue: place for place, queue in reversed(list(enumerate(want.queues)))}
    claimed.sort(key=lambda record: (places.get(record.queue, 0), record.priority, record.due, record.id))
    if more is None:
        more = tx.row("situation_alone", **parameters)
    return situation(more, tx.now, want, verdicts, claimed)


def asking(tick: Tick) -> dict[str, Any]:
    """The parameters of a tick's statements."""
    want = tick.want
    return {
        "worker": tick.worker,
        "seq": tick.seq,
        "queues": as_json(want.queues if want else ()),
        "tasks": as_json(sorted(want.tasks) if want else ()),
    }


def _claim(tx: Transaction, want: Want, parameters: dict[str, Any]) -> None:
    queues = tuple(dict.fromkeys(want.queues))
    if queues and want.limit > 0:
        named = {f"queue{place}": queue for place, queue in enumerate(queues)}
        limits = {"limit": want.limit, "lease": want.lease}
        tx.run_sql(tx.sql.claim(len(queues)), {**parameters, **named, **limits})


def situation(
    answer: Sequence[Any], now: int, want: Want | None, verdicts: list[Verdict], claimed: list[JobRecord]
) -> Ticked:
    paused, asked, registered, next_due = answer[:4]
    return Ticked(
        verdicts=verdicts,
        claimed=claimed,
        cancel_asked=_decode_pairs(asked),
        paused=frozenset(_decode_names(paused)).intersection(want.queues if want else ()),
        next_due=None if want is None or next_due is None else max(0, next_due - now),
        registered=bool(registered),
    )


def may_wake(tick: Tick) -> bool:
    """Whether others may have something to do after the tick."""
    return any(move.children or not WAITING.isdisjoint(move.path[-1:]) for move in tick.moves)


def peek(tx: Transaction, tick: Tick) -> Ticked | None:
    """The answer to a tick without moves, if there is nothing to claim; None if the tick must be made."""
    answer = tx.row("peek", **asking(tick))
    _, _, registered, next_due, is_ready = answer
    if (registered and is_ready) or (next_due is not None and next_due <= tx.now):
        return None
    return situation(answer, tx.now, tick.want, [], [])
